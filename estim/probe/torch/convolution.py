"""Convolutions: the patches that their filters meet, and the gradients of their filters.

notation: N images of some channels with one, two or three spatial axes; S places of the output.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Convolution:
    """What a convolution does with images and filters, as torch's graph has it."""

    images: Any
    """(N, channels, ...)."""
    filters: Any
    """(out, in / groups, ...); (in, out / groups, ...) when transposed."""
    options: tuple[Any, ...]
    """Stride, padding, dilation, whether transposed, padding of the output, groups."""
    by_patches: bool
    """Whether gradients at the output take less than those of the filters that they make."""


def convolution_of(node: Any) -> Convolution:
    """Read a node of the graph."""
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    options = tuple(getattr(node, f"_saved_{name}") for name in names)
    images, filters = node._saved_input.detach(), node._saved_weight.detach()
    places, plain = math.prod(node._input_metadata[0].shape[2:]), not options[3] and options[5] == 1
    return Convolution(images, filters, options, bool(plain and places < filters[0].numel()))


def patches_of(convolution: Convolution) -> torch.Tensor:
    """Return what each filter meets at each place, (N, S, channels times extent of the filter)."""
    images, (stride, padding, dilation, *_) = convolution.images, convolution.options
    padded = torch.nn.functional.pad(images, [k for one in reversed(padding) for k in (one, one)]).contiguous()
    extents = convolution.filters.shape[2:]
    along = zip(padded.shape[2:], extents, stride, dilation, strict=True)
    places = [(size - step * (extent - 1) - 1) // by + 1 for size, extent, by, step in along]
    first, channel, *each = padded.stride()
    strides = [one * by for one, by in zip(each, stride, strict=True)]
    inside = [one * step for one, step in zip(each, dilation, strict=True)]
    seen = padded.as_strided(
        (len(images), *places, images.shape[1], *extents), (first, *strides, channel, *inside)
    )  # every place beside those it shares entries with
    return seen.reshape(len(images), math.prod(places), -1)


def gradients_of_filters(images: torch.Tensor, gradients: torch.Tensor, convolution: Convolution) -> torch.Tensor:
    """Return the gradient by the filters for each input, (n, size), from its images, (n, t, ...), and gradients."""
    rest = (convolution.filters, None, *convolution.options, [False, True, False])
    each = itertools.starmap(
        lambda x, g: torch.ops.aten.convolution_backward(g, x, *rest)[1], zip(images, gradients, strict=True)
    )
    return torch.stack([gradient.flatten() for gradient in each])
