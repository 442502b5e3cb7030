"""Pictures of schedules."""

from __future__ import annotations

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from gumbeldore.batches import take
from problems.jssp.instances import job_shop, random_instances
from problems.jssp.originals import original_of
from problems.jssp.plots import plot_schedules
from problems.jssp.schedules import schedule


@pytest.mark.parametrize(("jobs", "machines"), [(3, 2), (15, 4), (25, 2)])
def test_pictures_show_every_operation_where_it_is(jobs, machines):
    instance = random_instances(3, jobs, machines, torch.Generator().manual_seed(0))
    times, orders = instance[:2]
    sequence = torch.arange(jobs).repeat_interleave(machines).repeat(3, 1)
    start = schedule(instance, sequence)
    figure = plot_schedules(original_of(instance), start, ["a", "b", "c"])
    FigureCanvasAgg(figure).draw()
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "c"]
    for i, axes in enumerate(figure.axes):
        assert len(axes.patches) == jobs * machines
        bars = iter(axes.patches)
        for job in range(jobs):
            colors = set()
            for op in range(machines):
                bar = next(bars)
                assert bar.get_x() == start[i, job, op] and bar.get_width() == pytest.approx(times[i, job, op].item())
                assert bar.get_y() + bar.get_height() / 2 == pytest.approx(orders[i, job, op].item())
                colors.add(to_hex(bar.get_facecolor()))
            assert len(colors) == 1
        assert len({to_hex(bar.get_facecolor()) for bar in axes.patches}) == jobs
        assert axes.get_xlim() == (0, pytest.approx((start + times)[i].max().item()))
        low, high = axes.get_ylim()
        assert low > machines - 1 and high < 0  # machine 0 on top
        assert [label.get_text() for label in axes.get_yticklabels()] == [str(m) for m in range(machines)]
        places = {
            (job, start[i, job, op] + times[i, job, op] / 2, orders[i, job, op])
            for job in range(jobs)
            for op in range(machines)
        }
        written = {(int(text.get_text()), *text.get_position()) for text in axes.texts}
        assert written <= {(job, float(x), int(y)) for job, x, y in places}
        assert written


def test_a_schedule_alone_is_wide():
    instance = random_instances(2, 3, 2, torch.Generator().manual_seed(0))
    start = schedule(instance, torch.tensor([[0, 1, 2, 2, 1, 0]] * 2))
    both = plot_schedules(original_of(instance), start, ["a", "b"])
    alone = plot_schedules(original_of(take(instance, slice(1))), start[:1], ["a"])
    assert both.get_figwidth() == alone.get_figwidth() == 10


def test_pictures_need_one_title_each_and_may_take_no_time():
    zero = torch.zeros(1, 2, 2)
    original = original_of(job_shop(zero, torch.tensor([[[0, 1], [1, 0]]])))
    FigureCanvasAgg(plot_schedules(original, zero, ["nothing"])).draw()
    for titles in ([], ["a", "b"]):
        with pytest.raises(ValueError, match="one title per solution is needed"):
            plot_schedules(original, zero, titles)
