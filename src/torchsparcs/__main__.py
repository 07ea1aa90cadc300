"""``python -m torchsparcs`` is ``sparcs``, where that is not on the path."""

from torchsparcs.command import main

if __name__ == "__main__":
    main()
