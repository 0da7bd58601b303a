"""What is wrong at a line of a data file or of a fence's body."""

from dataclasses import dataclass

from openbook.findings import Finding


@dataclass(frozen=True)
class Problem:
    """`line` and `column` count from 1 in the text that was read; 0 means the whole of it."""

    line: int
    rule: str
    message: str
    hint: str = ""
    severity: str = "error"
    column: int = 0

    def finding(self, path: str, line: int | None = None) -> Finding:
        """The finding for a file; `line` is the file's line where that is not the text's."""
        column = self.column if line is None else 0
        return Finding(
            path, self.line if line is None else line, column, self.rule, self.severity, self.message, self.hint
        )

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" + (f" ({self.hint})" if self.hint else "")
