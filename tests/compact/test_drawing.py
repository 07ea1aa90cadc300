"""Compact networks as pictures, and what a notebook shows of them."""

from xml.etree import ElementTree

import torch

from torchsparcs import CompactNetwork
from torchsparcs.compact.drawing import NEGATIVE, POSITIVE, drawing

SVG = "{http://www.w3.org/2000/svg}"


def network(widths, pairs, **options) -> CompactNetwork:
    torch.manual_seed(0)
    return CompactNetwork(widths, pairs, **options)


def parsed(net, *names) -> ElementTree.Element:
    return ElementTree.fromstring(drawing(net, *names))


def test_each_weight_is_a_line_of_its_sign():
    net = network([3, 2, 1], [(1, 0), (2, 0), (2, 1)], reads=(0, 2))
    with torch.no_grad():
        net.block(1, 0).weight.copy_(torch.tensor([[1.0, -2.0], [0.0, 4.0]]))
        net.block(2, 0).weight.zero_()
        net.block(2, 1).weight.fill_(-1.0)
    picture = parsed(net, ["a", "not read", "c"], ["price"])
    lines = picture.findall(f"{SVG}path")
    assert sorted(line.get("stroke") for line in lines) == sorted([POSITIVE] * 2 + [NEGATIVE] * 3)
    thick = [float(line.get("stroke-width")) for line in lines]
    assert thick == sorted(thick)
    assert thick[-1] == 3.0
    assert len(picture.findall(f"{SVG}circle")) == 2 + 2 + 1
    words = [text.text for text in picture.findall(f"{SVG}text")]
    assert words == ["a", "c", "price", "2 of 3", "2", "1"]
    assert picture.find(f"{SVG}title").text == net.architecture


def test_many_weights_are_bands_and_arcs():
    net = network([500, 40, 20, 10], [(1, 0), (2, 1), (3, 0), (3, 2)])
    text = drawing(net, [f"pixel {n}" for n in range(500)], range(10))
    assert len(text) < 6000
    picture = ElementTree.fromstring(text)
    paths = picture.findall(f"{SVG}path")
    assert sum(path.get("fill-opacity") is not None for path in paths) == 3
    assert sum(path.get("stroke-opacity") is not None for path in paths) == 1
    assert len(picture.findall(f"{SVG}circle")) == 20 + 10
    assert "pixel" not in text
    assert picture.findall(f"{SVG}text")[-4].text == "500"


def test_everything_is_inside():
    for net in (
        network([24, 24, 24], [(1, 0), (2, 1)]),
        network([30, 1, 1], [(1, 0), (2, 1), (2, 0)]),
        network([1, 1], [(1, 0)]),
    ):
        picture = parsed(net, [f"x{n}" for n in range(30)], ["y"] * net.widths[-1])
        _, _, width, height = map(float, picture.get("viewBox").split())
        for node in picture.findall(f"{SVG}circle"):
            radius = float(node.get("r"))
            assert radius < float(node.get("cx")) < width - radius
            assert radius < float(node.get("cy")) < height - radius - 14


def test_names_are_text():
    text = drawing(network([1, 1], [(1, 0)]), ["<script>alert(1)</script>"], ["a & b\x1b"])
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/scr…" in text
    assert "a &amp; b\\x1b" in text


def test_a_notebook_shows_a_line_and_the_picture():
    net = network([3, 2, 1], [(1, 0), (2, 1)])
    shown = net._repr_html_()
    ElementTree.fromstring(shown)
    assert net.describe() in shown
    assert drawing(net) in shown
    assert "<script" not in shown
