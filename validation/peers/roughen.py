"""Gives sea-level pressure of synthetic fields as many minima as a real analysis has, in place: small waves of a few cells.

Synthetic fields are smooth: they have as many minima as storms. ECMWF's analysis of 17 August 2022 at 0.4 degrees has 4,388 (cells
below all eight neighbours), and a tracker looks at every one of them.
usage: python roughen.py MINIMA FILE...        (numpy, netCDF4)
"""

import sys

import netCDF4
import numpy as np


def smooth(field, cells):
    """Gaussian of so many cells, periodic in longitude, mirrored at the poles."""
    reach = int(4 * cells)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / cells) ** 2)
    weights /= weights.sum()
    tall = np.concatenate([field[reach:0:-1], field, field[-2 : -reach - 2 : -1]])
    tall = sum(w * tall[k : k + field.shape[0]] for k, w in enumerate(weights))
    return sum(w * np.roll(tall, k - reach, axis=1) for k, w in enumerate(weights))


def minima(field):
    lowest = np.ones(field.shape, bool)
    for south in (-1, 0, 1):
        for east in (-1, 0, 1):
            if south or east:
                lowest &= field < np.roll(np.roll(field, east, axis=1), south, axis=0)
    return int(lowest[1:-1].sum())


def main():
    wanted, files = int(sys.argv[1]), sys.argv[2:]
    random = np.random.default_rng(5)
    for path in files:
        with netCDF4.Dataset(path, "a") as data:
            pressure = data["PSL"]
            for time in range(pressure.shape[0]):
                plain = np.asarray(pressure[time], dtype=np.float64)
                waves = smooth(random.standard_normal(plain.shape), 1.5)
                waves /= waves.std()
                # More of them, until there are as many minima.
                low, high = 0.0, 400.0
                for _ in range(12):
                    pa = (low + high) / 2
                    if minima(plain + pa * waves) < wanted:
                        low = pa
                    else:
                        high = pa
                pressure[time] = plain + high * waves
                found = minima(plain + high * waves)
                print(f"{path}: time {time}: {minima(plain)} minima, with waves of {high:.0f} Pa {found}")


main()
