"""Internal links: the built site is read, every link and anchor is looked up, findings name the source line.

A run has two passes: `page` reads each built page (ids, links, leaked markup), then `check` looks up the
anchors that pages want from each other. `source` maps what was found back to the Markdown that caused it.
"""
