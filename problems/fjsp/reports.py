"""How evaluations show instances and solutions of the FJSP."""

from __future__ import annotations

from torch import Tensor

from problems.fjsp.instances import Instance, assigned
from problems.fjsp.originals import Original
from problems.jssp import originals as job_shops
from problems.jssp.reports import JSSPReports


class FJSPReports(JSSPReports):
    """As a job shop's, once the machines are chosen. A solution is shown as its actions, j * M + m each."""

    def job_shop(self, shop: Instance | Original, actions: Tensor) -> tuple[job_shops.Original, Tensor]:
        """The job shops of the machines that solutions [n, T] choose, in the unit of those given, and their jobs."""
        if isinstance(shop, Instance):
            given, jobs = assigned(shop, actions)
            return job_shops.original_of(given), jobs
        given, jobs = assigned(shop.to_schedule(), actions)
        whole = job_shops.Original(*(field.long() for field in job_shops.original_of(given)))
        return whole._replace(first=shop.first), jobs
