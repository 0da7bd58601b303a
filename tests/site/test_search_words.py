"""What assets/js/search.js makes of a query before the theme's search sees it."""

import json

import pytest

CASES = {
    "py-spy permission denied": "py^6 spy^6 permission^6 permission denied^6 deni",
    "how do I find the slow nodes": "find^6 find slow^6 slow nodes^6 node",
    "steps": "steps^6 step",
    "is it": "is^6 it^6 it",  # nothing but fillers: better than nothing
    "NCCL_DEBUG": "nccl_debug^6 nccl_debug",
    '"exact words" here': '"exact words" here',  # operators are the reader's own
    "NCCL_IB_HCA=^mlx5": "NCCL_IB_HCA=^mlx5",
    "": "",
}


@pytest.fixture(scope="module")
def sent(served, browser):
    """sent(query): the text that the page's script sends to the search worker in place of the query."""
    _, base = served
    context = browser.new_context(bypass_csp=True)
    context.add_init_script(
        "self.toWorker = []; const send = Worker.prototype.postMessage;"
        "Worker.prototype.postMessage = function (message) { toWorker.push(message); return send.call(this, message) }"
    )
    page = context.new_page()
    page.goto(base)
    page.wait_for_function("toWorker.some(message => message.type === 0)")

    def ask(query: str) -> str:
        script = "query => { new Worker('data:text/javascript,').postMessage({type: 2, data: query}) }"
        page.evaluate(script, query)
        return page.evaluate("toWorker[toWorker.length - 1].data")

    ask.page = page
    yield ask
    context.close()


@pytest.mark.parametrize("query", CASES, ids=lambda query: json.dumps(query))
def test_whole_words_weigh_most_and_fillers_nothing(sent, query):
    assert sent(query) == CASES[query]


def test_other_messages_pass_unchanged(sent):
    other = {"type": 1, "data": "steps"}
    sent.page.evaluate("message => { new Worker('data:text/javascript,').postMessage(message) }", other)
    assert sent.page.evaluate("toWorker[toWorker.length - 1]") == other
