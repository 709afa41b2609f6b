"""Runs Python blocks of the documentation, page after page, in one process: importing TensorFlow takes long.

Standard input is JSON: a list of pages, each a list of blocks `[place, text]`. The blocks of a page share
their names, as a reader would run them.
"""

import json
import sys
import traceback

import tfdist


def main():
    # Many pages begin with this, and TensorFlow splits the CPU only before its first use.
    tfdist.make_strategy("mirrored", logical_cpus=2)
    failed = False
    for page in json.load(sys.stdin):
        names = {"__name__": "__main__"}
        for place, text in page:
            print(f"--- {place}", flush=True)
            try:
                exec(compile(text, place, "exec"), names)
            except Exception:
                traceback.print_exc(file=sys.stdout)
                failed = True
    sys.exit(failed)


main()
