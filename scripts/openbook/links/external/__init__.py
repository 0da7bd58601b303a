"""External links: other sites are asked once for each address, and judged with patience.

`addresses` collects what the pages link to, `target` reads one address, `guard` connects to public hosts
only, `fetch` asks once with limits on time and size, `pace` decides when, `verdict` and `content` say what the
answer means, `state` remembers, `ignore` and `since` hold what people and git say, `visit` puts it together.
"""
