"""HTML without holes: text is escaped when it becomes part of an element, and only elements are not."""

from html import escape
from typing import TypeAlias


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Content: TypeAlias = "str | Html | None"
# What has no end tag.
_VOID = frozenset(("img", "meta", "link", "br"))


def text(content: Content) -> Html:
    """Anything as HTML: plain text is escaped, nothing is nothing."""
    return content if isinstance(content, Html) else Html(escape(content or ""))


def join(*contents: Content, between: str = "") -> Html:
    """Several one after the other."""
    return Html(between.join(map(text, contents)))


def element(name: str, /, *contents: Content, **attributes: str | int | None) -> Html:
    """An element. Attributes that are None are left out; a trailing underscore, as in `class_`, is for Python's sake."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"' for key, value in attributes.items() if value is not None
    )
    return Html(f"<{name}{told}>" if name in _VOID else f"<{name}{told}>{join(*contents)}</{name}>")


def table(headings: list[Content], rows: list[list[Content]], *, numbers: bool = False) -> Html:
    """A table that scrolls by itself where the page is too narrow; the first column names the rows, `numbers` go to the right."""
    head = element("thead", element("tr", *(element("th", heading, scope="col") for heading in headings)))
    body = element("tbody", *(_row(row) for row in rows))
    return element("div", element("table", head, body, class_="numbers" if numbers else None), class_="scroll", tabindex=0)


def _row(cells: list[Content]) -> Html:
    return element("tr", element("th", cells[0], scope="row"), *(element("td", cell) for cell in cells[1:]))
