"""Draws models of transformers and torchvision with one or two layers, about as wide as their published configurations."""

from collections.abc import Callable
from random import Random

from .graph import MODES, DrawnGraph, DrawnInput, DrawnNode

Made = tuple[str, DrawnInput]
"""The constructor of a model, and its argument."""

_VOCABULARY = 1000


def draw_block(seed: str, device: str) -> DrawnGraph:
    """Draws a model; the same one for the same seed and device. It needs transformers or torchvision to run."""
    rng = Random(seed)
    large = device == "cuda"
    name = rng.choice(sorted(BLOCKS))
    dtype = rng.choice(("float32", "bfloat16", "bfloat16")) if large else "float32"
    module, given = BLOCKS[name](rng, large, dtype)
    mode = rng.choices(MODES, [6, 0, 3])[0]
    return DrawnGraph((given,), (DrawnNode("first({m}({0}))", (0,), module),), mode, dtype)


def _tokens(rng: Random, large: bool) -> DrawnInput:
    batch = rng.choice([1, 2, 8, 16, 32] if large else [1, 1, 2, 4])
    length = rng.choice([1, 16, 77, 128, 200, 512, 1024] if large else [1, 16, 77, 128, 200])
    return DrawnInput((batch, length), "int64", below=_VOCABULARY)


def _image(rng: Random, large: bool, dtype: str, sizes: tuple[int, ...] = (224, 256)) -> DrawnInput:
    batch = rng.choice([1, 8, 32, 64] if large else [1, 1, 2])
    side = rng.choice(sizes)
    return DrawnInput((batch, 3, side, side), dtype, rng.choice(["contiguous", "contiguous", "channels_last"]))


def _text(model: str, config: str, **fixed: object) -> Callable[[Random, bool, str], Made]:
    """Returns a function that draws a transformer on indices whose configuration has the usual names."""

    def draw(rng: Random, large: bool, dtype: str) -> Made:
        """Draws a configuration of a language model."""
        heads, head = rng.choice([2, 4, 8, 12, 16]), rng.choice([32, 64, 64, 64, 128])
        sizes = {
            "hidden_size": heads * head,
            "num_attention_heads": heads,
            "intermediate_size": rng.choice([2, 3, 4]) * heads * head,
        }
        sizes |= {"num_hidden_layers": rng.choice([1, 2]), "vocab_size": _VOCABULARY, "max_position_embeddings": 2048}
        return _construct(model, config, sizes | fixed), _tokens(rng, large)

    return draw


def _named(model: str, config: str, sizes: Callable[[Random], dict[str, object]]) -> Callable[[Random, bool, str], Made]:
    """Returns a function that draws a transformer on indices whose configuration has names of its own."""

    def draw(rng: Random, large: bool, dtype: str) -> Made:
        """Draws the sizes of a model with a configuration of its own."""
        return _construct(model, config, sizes(rng) | {"vocab_size": _VOCABULARY}), _tokens(rng, large)

    return draw


def _vision(model: str, config: str, sizes: Callable[[Random], dict[str, object]], squares: tuple[int, ...] = (224, 256)) -> Callable[[Random, bool, str], Made]:  # fmt: skip
    def draw(rng: Random, large: bool, dtype: str) -> Made:
        """Draws the sizes of a vision model, and images."""
        given = _image(rng, large, dtype, squares)
        return _construct(model, config, sizes(rng) | {"image_size": given.shape[2]}), given

    return draw


def _torchvision(expression: str) -> Callable[[Random, bool, str], Made]:
    return lambda rng, large, dtype: (f"torchvision.models.{expression}", _image(rng, large, dtype))


def _construct(model: str, config: str, sizes: dict[str, object]) -> str:
    options = ", ".join(f"{name}={value!r}" for name, value in sizes.items())
    return f"transformers.{model}(transformers.{config}({options}))"


def _gpt2(rng: Random) -> dict[str, object]:
    heads = rng.choice([4, 8, 12, 16])
    return {"n_embd": heads * 64, "n_head": heads, "n_layer": rng.choice([1, 2]), "use_cache": False}


def _t5(rng: Random) -> dict[str, object]:
    heads = rng.choice([6, 8, 12])
    return {
        "d_model": heads * 64,
        "num_heads": heads,
        "d_kv": 64,
        "d_ff": heads * rng.choice([128, 256]),
        "num_layers": 2,
        "use_cache": False,
    }


def _bart(rng: Random) -> dict[str, object]:
    heads = rng.choice([8, 12])
    sizes = {f"{part}_{what}": n for part in ("encoder", "decoder") for what, n in (("layers", 1), ("attention_heads", heads))}
    return {**sizes, "encoder_ffn_dim": heads * 256, "decoder_ffn_dim": heads * 256, "d_model": heads * 64, "use_cache": False}


def _patches(rng: Random) -> dict[str, object]:
    heads = rng.choice([3, 6, 12])
    return {"hidden_size": heads * 64, "num_attention_heads": heads, "intermediate_size": heads * 256, "num_hidden_layers": 2, "patch_size": rng.choice([14, 16, 32])}  # fmt: skip


def _swin(rng: Random) -> dict[str, object]:
    return {"embed_dim": rng.choice([48, 96]), "depths": [2, 2], "num_heads": [3, 6], "window_size": rng.choice([7, 8])}


def _segformer(rng: Random) -> dict[str, object]:
    return {"depths": [1, 1, 1, 1], "hidden_sizes": rng.choice([[32, 64, 160, 256], [64, 128, 320, 512]])}


def _stages(rng: Random) -> dict[str, object]:
    return {"depths": [1, 1, 1, 1], "hidden_sizes": rng.choice([[48, 96, 192, 384], [96, 192, 384, 768], [64, 128, 256, 512]])}


def _experts(rng: Random) -> dict[str, object]:
    return {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 4, "num_local_experts": rng.choice([4, 8]), "use_cache": False}  # fmt: skip


def _mamba(rng: Random) -> dict[str, object]:
    return {"hidden_size": rng.choice([256, 768]), "num_hidden_layers": 1, "state_size": 16, "use_cache": False}


BLOCKS: dict[str, Callable[[Random, bool, str], Made]] = {
    "albert": _text("AlbertModel", "AlbertConfig", embedding_size=128),
    "bart": _named("BartModel", "BartConfig", _bart),
    "bert": _text("BertModel", "BertConfig"),
    "clip": _vision("CLIPVisionModel", "CLIPVisionConfig", _patches),
    "convnext": _vision("ConvNextModel", "ConvNextConfig", _stages),
    "dinov2": _vision("Dinov2Model", "Dinov2Config", lambda rng: {**_patches(rng), "patch_size": 14}),
    "electra": _text("ElectraModel", "ElectraConfig", embedding_size=128),
    "falcon": _text("FalconModel", "FalconConfig", use_cache=False),
    "gemma": _text("GemmaModel", "GemmaConfig", head_dim=64, num_key_value_heads=1, use_cache=False),
    "gpt2": _named("GPT2Model", "GPT2Config", _gpt2),
    "gpt-neox": _text("GPTNeoXModel", "GPTNeoXConfig", use_cache=False),
    "llama": _text("LlamaModel", "LlamaConfig", num_key_value_heads=2, use_cache=False),
    "mamba": _named("MambaModel", "MambaConfig", _mamba),
    "mixtral": _named("MixtralModel", "MixtralConfig", _experts),
    "mobilenet": _vision("MobileNetV2Model", "MobileNetV2Config", lambda rng: {"depth_multiplier": rng.choice([0.5, 1.0])}),
    "mpnet": _text("MPNetModel", "MPNetConfig"),
    "phi": _text("PhiModel", "PhiConfig", use_cache=False),
    "qwen": _text("Qwen2Model", "Qwen2Config", num_key_value_heads=2, use_cache=False),
    "regnet": _vision("RegNetModel", "RegNetConfig", lambda rng: {"depths": [1, 1, 2, 1], "groups_width": rng.choice([16, 32, 64])}),
    "resnet": _vision("ResNetModel", "ResNetConfig", lambda rng: {"depths": [1, 1, 1, 1], "layer_type": rng.choice(["basic", "bottleneck"])}),
    "roberta": _text("RobertaModel", "RobertaConfig"),
    "segformer": _vision("SegformerModel", "SegformerConfig", _segformer),
    "swin": _vision("SwinModel", "SwinConfig", _swin, (224,)),
    "t5": _named("T5EncoderModel", "T5Config", _t5),
    "torchvision densenet": _torchvision("densenet121(weights=None).features"),
    "torchvision efficientnet": _torchvision("efficientnet_b0(weights=None).features"),
    "torchvision shufflenet": _torchvision("shufflenet_v2_x1_0(weights=None)"),
    "torchvision squeezenet": _torchvision("squeezenet1_1(weights=None).features"),
    "torchvision swin": _torchvision("swin_t(weights=None).features[:3]"),
    "vit": _vision("ViTModel", "ViTConfig", _patches),
}  # fmt: skip
"""Maps the name of a model to the function that draws it."""
