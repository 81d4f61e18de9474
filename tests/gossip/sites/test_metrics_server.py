"""The server of metrics: where it listens, and what clients cannot do to it."""

import http.client
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from waiting import free_port, wait_for

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed: pip install 'dimargin[peers]'")

from test_site_metrics import status

from dimargin.gossip.sites import metrics_server
from dimargin.gossip.sites.metrics_server import MetricsServer


def get(port, path="/metrics", method="GET", host="127.0.0.1"):
    connection = http.client.HTTPConnection(host, port, timeout=30)
    connection.request(method, path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


@pytest.fixture
def port():
    found = free_port()
    with MetricsServer(str(found), status):
        yield found


def test_metrics_are_served_on_this_computer_only(port):
    code, text = get(port)
    assert code == 200 and "dimargin_rounds_total 36.0" in text
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", port), timeout=5)


@pytest.mark.parametrize(
    ("path", "method", "code"), [("/", "GET", 404), ("/../../etc/passwd", "GET", 404), ("/metrics", "POST", 501)]
)
def test_nothing_else_is_served(port, path, method, code):
    assert get(port, path, method)[0] == code


def test_another_address_may_be_given():
    port = free_port()
    with MetricsServer(f"127.0.0.2:{port}", status):
        assert get(port, host="127.0.0.2")[0] == 200


def test_metrics_are_computed_once_per_status():
    facts, asked = [status(round=1)], []
    port = free_port()

    def last():
        asked.append(1)
        return facts[0]

    with MetricsServer(str(port), last) as server:
        first = server.metrics()
        assert server.metrics() is first
        facts[0] = status(round=2)
        assert "dimargin_rounds_total 2.0" in get(port)[1] and len(asked) == 3


def test_a_site_without_a_status_is_not_ready():
    port = free_port()
    with MetricsServer(str(port), lambda: None):
        assert get(port)[0] == 503


def test_a_port_in_use_is_named_with_its_flag(port):
    with pytest.raises(ValueError, match=f"^--metrics {port}: cannot listen there: Address already in use$"):
        MetricsServer(str(port), status)


@pytest.mark.parametrize("address", ["", "0", "65536", "-1", "http", "127.0.0.1:", "9464 ", "٩٤٦٤"])
def test_an_invalid_address_is_refused(address):
    with pytest.raises(ValueError, match=r"^--metrics must be a port or ADDRESS:PORT"):
        MetricsServer(address, status)


def test_clients_that_send_or_read_slowly_are_disconnected(monkeypatch, capfd):
    monkeypatch.setattr(metrics_server, "MAX_SECONDS", 0.2)
    large = status(sites={f"{k:0200}": k for k in range(100_000)})  # More than the buffers of a connection hold.
    port = free_port()
    with MetricsServer(str(port), lambda: large) as server, ExitStack() as stack:
        server.metrics()
        threads = threading.active_count()
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(4)]
        for client, sent in zip(
            clients, (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n", b"\xff" * 100), strict=True
        ):
            client.sendall(sent)
        dripping = threading.Thread(target=drip, args=(clients[1],))
        dripping.start()
        began = time.monotonic()
        code, text = get(port)
        assert code == 200 and len(text) > 2e7 and time.monotonic() - began < 10
        assert threading.active_count() <= threads + 3  # The dripping client, and one deadline at a time.
        dripping.join(timeout=10)
        assert not dripping.is_alive()
    assert capfd.readouterr() == ("", "")


def drip(client):
    """Send a byte now and then, so that no single read of the server takes long, until it hangs up."""
    try:
        while True:
            client.sendall(b"x")
            time.sleep(0.05)
    except OSError:
        pass


def test_requests_are_limited(port):
    ended, answers = threading.Event(), []

    def hammer():
        while not ended.is_set():
            answers.append(get(port)[0])

    clients = [threading.Thread(target=hammer) for _ in range(4)]
    for client in clients:
        client.start()
    began = time.monotonic()
    time.sleep(1.0)
    ended.set()
    for client in clients:
        client.join()
    seconds = time.monotonic() - began
    assert set(answers) == {200} and len(answers) <= 50 * seconds + 5


def test_the_port_is_free_when_the_server_has_ended(port):
    other = free_port()
    with MetricsServer(str(other), status):
        get(other)
    with MetricsServer(str(other), status):
        wait_for(lambda: get(other)[0] == 200, "an answer")
