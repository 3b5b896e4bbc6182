"""Gradient descent on Himmelblau's function, from the starting point that the tuner chooses."""

from __future__ import annotations

import nni


def value_and_gradient(x: float, y: float) -> tuple[float, float, float]:
    a, b = x * x + y - 11, x + y * y - 7
    return a * a + b * b, 4 * x * a + 2 * b, 2 * a + 4 * y * b


def main() -> None:
    point = nni.get_next_parameter(default={"x": 0.0, "y": 0.0})
    x, y = point["x"], point["y"]
    value = 0.0
    for _ in range(10):
        value, dx, dy = value_and_gradient(x, y)
        nni.report_intermediate_result(value)
        x, y = x - 0.001 * dx, y - 0.001 * dy
    nni.report_final_result(value)


if __name__ == "__main__":
    main()
