"""How a request is refused."""


class RefusedError(Exception):
    """A request is refused with a status and a text."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code
