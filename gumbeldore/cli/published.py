"""The networks of the authors' published checkpoints [GD]: how to tell them apart, and their parameters by our names.

Their facts were read off the authors' code, https://github.com/grimmlab/gumbeldore.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from torch import Tensor

LAYER = {  # parameters of a layer, and their paths in models.layers.ReZeroLayer
    "resweight": "scale",
    "self_attn.in_proj_weight": "qkv.weight",
    "self_attn.in_proj_bias": "qkv.bias",
    "self_attn.out_proj": "output_projection",
    "linear1": "up_projection",
    "linear2": "down_projection",
}
LEHD_MODULES = {
    "node_embedding": "embed",
    "graph_encoder": "encoder",
    "graph_decoder": "decoder",
    "start_projection": "origin",
    "policy_linear_out": "head",
}


class PublishedNetwork(NamedTuple):
    """One of their networks."""

    about: str
    problem: str
    model: str  # the option of the group `model` that is like it
    target: str  # the class that computes what it does
    experiment: str  # that it was trained by
    layers: str  # a numbered layer is called so, a dot and its number
    modules: dict[str, str]  # its modules, and their paths in the class
    fixed: dict[str, Any] = {}  # arguments of the class beside the sizes
    markers: tuple[str, ...] = ()  # the class's parameters that are rows of the marker, in this order
    trained_with: dict[str, Any] = {}  # values of the problem, beside those of the experiment


NETWORKS = {  # by a parameter that no other has
    "first_last_marker.weight": PublishedNetwork(
        about="BQ for the TSP",
        problem="tsp",
        model="bq",
        target="models.bq_tsp.BQ",
        fixed={"canonical_coordinates": False, "successor_loss": 0.0},
        experiment="paper_tsp100",
        layers="graph_encoder",
        modules={"node_embedding": "embed", "graph_encoder": "layers", "policy_linear_out": "head"},
        markers=("origin", "destination"),
    ),
    "dest_projection.weight": PublishedNetwork(
        about="LEHD for the TSP",
        problem="tsp",
        model="lehd",
        target="models.lehd_tsp.LEHD",
        fixed={"successor_loss": 0.0},
        experiment="paper_tsp100",
        layers="graph_decoder",
        modules={**LEHD_MODULES, "dest_projection": "destination"},
    ),
    "depot_start_node_marker.weight": PublishedNetwork(
        about="BQ for the CVRP",
        problem="cvrp",
        model="bq_cvrp",
        target="models.published.CVRPBQ",
        experiment="paper_cvrp100",
        layers="graph_encoder",
        modules={"node_embedding": "embed", "graph_encoder": "layers", "policy_linear_out": "head"},
        markers=("depot", "origin"),
        trained_with={"nearest": 250},
    ),
    "capacity_embedding.weight": PublishedNetwork(
        about="LEHD for the CVRP",
        problem="cvrp",
        model="lehd_cvrp",
        target="models.published.CVRPLEHD",
        experiment="paper_cvrp100",
        layers="graph_decoder",
        modules={**LEHD_MODULES, "depot_projection": "depot", "capacity_embedding": "capacity_left"},
        trained_with={"nearest": 250},
    ),
    "operation_embedding.weight": PublishedNetwork(
        about="the network for the JSSP",
        problem="jssp",
        model="job_shop",
        target="models.published.JSSPTransformer",
        experiment="paper_jssp",
        layers="encoder",
        modules={"operation_embedding": "embed", "final_trf_block": "between_jobs", "policy_linear_out": "head"},
    ),
}


def network_of(weights: Mapping[str, Tensor]) -> PublishedNetwork:
    """The network that the weights belong to. Raises ValueError if it is none, or not clear."""
    found = [network for key, network in NETWORKS.items() if key in weights]
    if len(found) != 1:
        raise ValueError(f"its model_weights are of no network of theirs; they have {', '.join(NETWORKS)}")
    return found[0]


def model_config(network: PublishedNetwork, weights: Mapping[str, Tensor], heads: int) -> dict[str, Any]:
    """The `model` of a configuration: the class and its sizes, which follow from the weights but for the heads."""
    width = matrix(weights, "policy_linear_out.weight").shape[1]
    numbers = {found[1] for key in weights if (found := re.match(rf"{network.layers}\.(\d+)\.", key))}
    feedforward = len(matrix(weights, f"{network.layers}.0.linear1.weight"))
    sizes = {"width": width, "layers": len(numbers), "heads": heads, "feedforward": feedforward}
    return {"_target_": network.target, **sizes, **network.fixed}


def matrix(weights: Mapping[str, Tensor], name: str) -> Tensor:
    """The weight of this name. Raises KeyError if there is none, ValueError if it is no matrix."""
    if weights[name].dim() != 2:
        raise ValueError(f"{name} must be a matrix, its shape is {list(weights[name].shape)}")
    return weights[name]


def our_weights(network: PublishedNetwork, weights: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """The weights by the names and in the shapes of our classes; what has no place there keeps its name."""
    return {name: weight for key, weight in weights.items() for name, weight in _ours(network, key, weight, layers)}


def _ours(network: PublishedNetwork, key: str, weight: Tensor, layers: int) -> Iterator[tuple[str, Tensor]]:
    if network.markers and NETWORKS.get(key) is network and len(weight) == len(network.markers):
        yield from zip(network.markers, weight, strict=True)
        return
    path = _job_shop_layer(key, layers) if network.problem == "jssp" else key
    for old, new in {**network.modules, **LAYER}.items():
        path = re.sub(rf"(^|\.){re.escape(old)}(\.|$)", rf"\g<1>{new}\g<2>", path, count=1)
    if path.endswith("qkv.weight"):
        weight = weight.unflatten(0, (3, -1))
    yield path, weight.reshape(()) if path.endswith(".scale") else weight


def _job_shop_layer(key: str, layers: int) -> str:
    """A parameter of layer 0, 1, 2, ... by the name of its layer: job-wise and machine-wise in turn."""
    found = re.match(r"encoder\.(\d+)\.", key)
    if found is None:
        return key
    number = int(found[1])
    name = f"{('job_wise', 'machine_wise')[number % 2]}.{number // 2}"
    if number == layers - 1 and layers % 2:
        name = "odd_job_wise"
    return f"{name}.{key[found.end() :]}"
