"""Several processes train one classifier together, with PyTorch's DistributedDataParallel on CPUs."""

import math

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import nni

EPOCHS = 20
POINTS = 4000


def spirals(points: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points of two spirals that wind around each other, and which spiral each belongs to."""
    random = torch.Generator().manual_seed(seed)
    turn = 3 * math.pi * torch.rand(points, generator=random).sqrt()
    label = torch.arange(points) % 2
    angle = turn + math.pi * label
    at = torch.stack([turn * angle.cos(), turn * angle.sin()], dim=1) / 5
    return at + 0.05 * torch.randn(at.shape, generator=random), label


def main() -> None:
    parameters = nni.get_next_parameter()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    width = parameters["width"]
    model = torch.nn.Sequential(
        torch.nn.Linear(2, width), torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.Tanh(),
        torch.nn.Linear(width, 2),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=parameters["lr"])
    begin = 0
    state = nni.load_checkpoint()  # the same for all processes; None at the beginning
    if state is not None:
        begin = state["epoch"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    together = DistributedDataParallel(model)
    inputs, labels = spirals(POINTS, seed=rank)  # each process learns from other points
    tests, truth = spirals(1000, seed=world)
    accuracy = 0.0
    for epoch in range(begin, EPOCHS):
        for batch in torch.randperm(POINTS, generator=torch.Generator().manual_seed(epoch)).split(50):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(together(inputs[batch]), labels[batch])
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (model(tests).argmax(dim=1) == truth).float().mean().item()
        state = {"epoch": epoch + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        nni.save_checkpoint(state, step=epoch + 1, metric=accuracy)  # rank 0 saves and reports
    nni.report_final_result(accuracy)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
