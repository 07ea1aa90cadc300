"""A compact network as a picture: SVG with a title, in the colour of the text around it."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from torch import Tensor

from torchsparcs.files.visible import shortened

if TYPE_CHECKING:
    from torchsparcs.compact.network import CompactNetwork

WIDTH, ROW, TOP, TALL, ARC = 640, 18, 12, 264, 40  # pixels
NAMES = 150  # pixels for the names at a side
MOST_NODES = 24  # of a layer that are drawn one by one
MOST_LINES = 300  # weights that are drawn one by one
LETTERS = 22  # of a name
BAR = 'stroke-width="12" stroke-linecap="round"'
POSITIVE, NEGATIVE = "#2f7fd0", "#d9730d"  # both readable on white and on black


def drawing(
    network: "CompactNetwork", inputs: Sequence[Any] = (), outputs: Sequence[Any] = ()
) -> str:
    """Layers as columns of neurons, weights as lines: the thicker the larger, blue above zero.

    A layer of more than 24 neurons is a bar; of more than 300 weights each block is a band, or an
    arc where it skips layers.

    Args:
        inputs: the names of all inputs, of which those that are read are written beside them.
        outputs: the names of the outputs.
    """
    read = range(network.widths[0]) if network.reads is None else network.reads
    sizes = (len(read), *network.widths[1:])
    names = [[inputs[place] for place in read], [*outputs]] if len(inputs) else [[], [*outputs]]
    ends = [
        bool(part) and size <= MOST_NODES
        for part, size in zip(names, (sizes[0], sizes[-1]), strict=True)
    ]
    blocks = {
        (target, source): network.block(target, source).weight.detach().float().cpu()
        for target, source in network.connections
    }
    is_single = max(sizes) <= MOST_NODES and _weights(blocks) <= MOST_LINES
    most = min(max(sizes), MOST_NODES)
    row = min(ROW, TALL / most)
    top = TOP if is_single or all(t == s + 1 for t, s in blocks) else ARC
    bottom = top + row * most
    left, right = (NAMES if end else 40 for end in ends)
    step = (WIDTH - left - right) / (len(sizes) - 1)
    middle = (top + bottom) / 2
    places = [_column(left + step * k, size, middle, row) for k, size in enumerate(sizes)]
    parts = [*(_lines if is_single else _bands)(blocks, places, row)]
    parts += _nodes(places, sizes, row)
    for column, words, is_there, anchor in zip(
        (places[0], places[-1]), names, ends, ("end", "start"), strict=True
    ):
        if is_there:
            beside = -9 if anchor == "end" else 9
            pairs = zip(column, words, strict=True)
            parts += [text(x + beside, y + 4, _short(name), anchor) for (x, y), name in pairs]
    read_of = "" if network.reads is None else f" of {network.widths[0]:,}"
    for k, (column, size) in enumerate(zip(places, sizes, strict=True)):
        parts.append(text(column[0][0], bottom + 14, f"{size:,}{'' if k else read_of}", "middle"))
    title = f"<title>{escape(network.architecture)}</title>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 20:g}" '
        f'width="{WIDTH}" style="max-width:100%;height:auto" role="img" fill="currentColor" '
        f'font-family="sans-serif" font-size="11">{title}{"".join(parts)}</svg>'
    )


Places = list[list[tuple[float, float]]]
Blocks = dict[tuple[int, int], Tensor]


def _weights(blocks: Blocks) -> int:
    return sum(int(weight.count_nonzero()) for weight in blocks.values())


def _column(x: float, size: int, middle: float, row: float) -> list[tuple[float, float]]:
    """Where the neurons of a layer are; of too many, the ends of a bar."""
    if size > MOST_NODES:
        return [(x, middle - TALL / 2), (x, middle + TALL / 2)]
    first = middle - row * (size - 1) / 2
    return [(x, first + row * place) for place in range(size)]


def _nodes(places: Places, sizes: Sequence[int], row: float) -> Iterator[str]:
    for column, size in zip(places, sizes, strict=True):
        if size > MOST_NODES:
            (x, top), (_, bottom) = column
            yield f'<path d="M{x:.4g} {top:.4g}V{bottom:.4g}" stroke="currentColor" {BAR}/>'
        else:
            yield from (
                f'<circle cx="{x:.4g}" cy="{y:.4g}" r="{0.28 * row:.2g}"/>' for x, y in column
            )


def _lines(blocks: Blocks, places: Places, row: float) -> Iterator[str]:
    """The weights one by one, the strongest on top."""
    lines = [
        (weight[there, here].item(), places[source][here], places[target][there])
        for (target, source), weight in blocks.items()
        for there, here in weight.nonzero().tolist()
    ]
    largest = max((abs(weight) for weight, *_ in lines), default=1.0)
    for weight, (x, y), (to_x, to_y) in sorted(lines, key=lambda line: abs(line[0])):
        thick, middle = 0.4 + 2.6 * abs(weight) / largest, (x + to_x) / 2
        yield (
            f'<path d="M{x:.4g} {y:.4g}C{middle:.4g} {y:.4g} {middle:.4g} {to_y:.4g} {to_x:.4g} '
            f'{to_y:.4g}" fill="none" stroke="{POSITIVE if weight > 0 else NEGATIVE}" '
            f'stroke-width="{thick:.2g}"/>'
        )


def _bands(blocks: Blocks, places: Places, row: float) -> Iterator[str]:
    """Every block as a band from layer to layer, or as an arc above those that it skips."""
    for target, source in blocks:
        (x, top), (to_x, to_top) = places[source][0], places[target][0]
        bottom, to_bottom = places[source][-1][1], places[target][-1][1]
        if target == source + 1:
            corners = f"M{x:.4g} {top:.4g}L{to_x:.4g} {to_top:.4g}V{to_bottom:.4g}L{x:.4g} "
            yield f'<path d="{corners}{bottom:.4g}Z" fill-opacity="0.15"/>'
        else:
            yield (
                f'<path d="M{x:.4g} {top:.4g}C{x:.4g} 0 {to_x:.4g} 0 {to_x:.4g} '
                f'{to_top - row / 3:.4g}" fill="none" stroke="currentColor" stroke-opacity="0.5" '
                'stroke-width="2"/>'
            )


def text(x: float, y: float, words: str, anchor: str) -> str:
    """Words of a picture that begin, end or have their middle at a place."""
    return f'<text x="{x:.4g}" y="{y:.4g}" text-anchor="{anchor}">{escape(words)}</text>'


def _short(name: Any) -> str:
    whole = shortened(name)
    return whole if len(whole) <= LETTERS else f"{whole[: LETTERS - 1]}…"
