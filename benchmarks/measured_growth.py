"""What grows with what, and what convolutional networks cost, as measured.py puts it on pages.

Each function takes the records by their names.
"""

from chips import table

GROWN = {
    "width": "width of both hidden layers",
    "hidden layers": "hidden layers of 128",
    "members": "members of a population",
    "batch": "batch",
}


def growth_table(found: dict) -> str:
    steps = found["growth"]["cpu"]["step_ms"]
    rows = (
        [words, ", ".join(f"{size}: {ms:.1f}" for size, ms in steps[name].items())]
        for name, words in GROWN.items()
    )
    return table(["", "milliseconds a step"], *rows)


def growth_of_searches(found: dict) -> str:
    rows, columns = found["growth"]["cpu"]["search_seconds"].values()
    told = " and ".join(f"{seconds:.0f} s with {int(n):,} rows" for n, seconds in rows.items())
    more = " and ".join(f"{seconds:.0f} s with {n} columns" for n, seconds in columns.items())
    return f"{told} (20 columns, the defaults of then), {more} (1,000 rows, 300 steps)"


def growth_shared(found: dict) -> str:
    steps, searches = found["growth"]["cpu"]["shared"].values()
    one, two, ray = (run["time"] for run in searches.values())
    if len({run["digest"] for run in searches.values()}) > 1:
        raise ValueError("Expected the same weights from one process, two and Ray's.")
    alone, both = (run["time"] for run in steps.values())
    return (
        f"{one:.1f}, {two:.1f} and {ray:.1f} s; a training of 256-512-512-10 with a batch of 2,048 "
        f"took {alone:.0f} ms a step in one process and {both:.0f} in two"
    )


def population(found: dict) -> str:
    one = found["population"]["cpu"]
    return f"{one['members']} members at {one['throughput_ratio']:.1f} times the throughput"


def cnn_cost(found: dict) -> str:
    of = found["cnn_cost"]["cuda"]
    normalised = of["spectral_to_plain_normalised_epoch_seconds"]
    return (
        f"{of['spectral_to_plain_epoch_seconds']:.2f} times its time and "
        f"{of['spectral_to_plain_peak_bytes']:.2f} times its memory; with batch normalisation in "
        f"both {normalised:.2f} times the time and "
        f"{of['spectral_to_plain_normalised_peak_bytes']:.2f} times the memory"
    )


def cnn_latency(found: dict) -> str:
    networks = found["cnn_latency"]["cpu"]["networks"]

    def told(kind: str) -> tuple[str, str]:
        """Milliseconds for one image, and the sizes, both from the largest network."""
        of = {
            int(name.split(", ")[1].split()[0].replace(",", "")): rows[0]["onnxruntime"] / 1e3
            for name, rows in networks.items()
            if name.startswith(kind)
        }
        sizes = sorted(of, reverse=True)
        return _listed([f"{of[n]:.2f}" for n in sizes]), _listed([f"{n:,}" for n in sizes])

    (cut, cut_sizes), (plain, plain_sizes) = told("cut"), told("plain")
    whole = networks["spectral, as trained"][0]["onnxruntime"] / 1e3
    return (
        f"{cut} ms with cut networks of {cut_sizes} parameters, {whole:.2f} ms with the spectral "
        f"network they were cut from, and {plain} ms with plain CNNs of {plain_sizes}"
    )


def conv_depth(found: dict) -> str:
    smallest = [run["smallest"] for run in found["conv_depth"]["cpu"]["runs"]]
    layers, sizes = (
        _listed([str(one[name]) for one in smallest]) for name in ("convolutions", "parameters")
    )
    return f"{layers} convolutions and {sizes} parameters in the {len(smallest)} seeds"


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
