"""All contestants at once: their runs share one pool of processes, the longest first.

python benchmarks/peers/everybody.py --workers 14
python benchmarks/peers/everybody.py --workers 14 --tasks mnist --data mnist.npz --device cuda \\
    --seeds 3

What is recorded already is not run again, so an interrupted contest goes on where it was. A
contestant whose packages are missing fails, and the others go on. Only torchsparcs uses
the device, the others run on the CPU.
"""

from running import CONTESTANTS, main

if __name__ == "__main__":
    main(*CONTESTANTS, on_device=["torchsparcs"])
