"""HTTP/1.1 of the server, with problem responses for requests that no app ever sees."""

import sys
import uuid

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from shortlist.serve.problems import RefusedError

LINGER = 1.0  # seconds; closing at once would reset the connection before a client that sends has read the response


class HttpProtocol(H11Protocol):
    """The protocol of uvicorn; invalid HTTP gets a 400, and headers beyond the limit a 431."""

    refused = False

    def data_received(self, data: bytes) -> None:
        if not self.refused:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Called while the error of h11 is handled."""
        self.refused = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # a response has begun
            return
        self._respond(_refusal(sys.exc_info()[1]))
        self.loop.call_later(LINGER, self.transport.close)

    def _respond(self, refused: RefusedError) -> None:
        response = refused.response(uuid.uuid4().hex)
        headers = [*response.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=response.status_code, headers=headers),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.write_eof()


def _refusal(error: BaseException | None) -> RefusedError:
    if getattr(error, "error_status_hint", 400) == 431:
        return RefusedError("headers-too-large", "the request line and headers are too large; send fewer")
    return RefusedError("malformed-http", "the bytes are not a request of HTTP/1.1")
