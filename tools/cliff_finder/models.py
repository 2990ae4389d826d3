"""Lists whole models, of their published sizes, that no benchmark under tools/ names: inference of each, training of some."""

from collections.abc import Iterator

from .graph import DrawnGraph, DrawnInput, DrawnNode

Named = Iterator[tuple[str, DrawnGraph]]

_WORDS = 30000
_LOSS = "{m}({0}, labels={0}).loss"
_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}


def models(device: str) -> dict[str, DrawnGraph]:
    """Returns models by name, with a batch of one or two on a CPU. They need transformers and torchvision to run."""
    if device == "cuda":
        return dict([*_encoders(16), *_decoders(4), *_pairs(8), *_vision(32, "bfloat16"), *_training()])
    return dict([*_encoders(2), *_decoders(2), *_pairs(2), *_vision(2, "float32"), *_small_training()])


def _encoders(batch: int) -> Named:
    half = "bfloat16" if batch > 2 else "float32"
    yield "roberta base", _text("Roberta", batch, 256, half)
    yield "distilbert, one sentence", _text("DistilBert", 1, 64)
    relative = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
    yield "deberta v2", _text("DebertaV2", batch // 2, 128, half, **_BASE, **relative)
    yield "wav2vec2 base", _model(_configured("Wav2Vec2Model", "Wav2Vec2"), DrawnInput((4 if batch > 2 else 1, 48000)))


def _decoders(batch: int) -> Named:
    half = "bfloat16" if batch > 2 else "float32"
    yield "opt 125m", _text("OPT", batch, 512, half, use_cache=False)
    yield "pythia 160m", _text("GPTNeoX", batch, 512, half, use_cache=False, **_BASE)
    grouped = {"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2}
    yield "qwen2 0.5b, one sentence", _text("Qwen2", 1, 128, half, intermediate_size=4864, use_cache=False, **grouped)
    wide = {"hidden_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 1}
    yield "gemma, few layers", _text("Gemma", batch, 512, half, intermediate_size=16384, use_cache=False, **wide)
    experts = {"hidden_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 8}
    yield "mixtral, few layers", _text("Mixtral", batch, 256, half, intermediate_size=3584, use_cache=False, **experts)


def _pairs(batch: int) -> Named:
    """Yields encoder-decoder models."""
    half = "bfloat16" if batch > 2 else "float32"
    both = "first({m}(input_ids={0}, decoder_input_ids={1}))"
    yield (
        "t5 small",
        _model(_configured("T5Model", "T5", use_cache=False), _indices(batch, 256), _indices(batch, 64), call=both, dtype=half),
    )
    yield "bart base", _text("Bart", batch, 256, half, use_cache=False, **_layers(768, 12))
    heard = DrawnInput((batch // 2, 80, 3000), half)
    whisper = _configured("WhisperModel", "Whisper", use_cache=False, **_layers(512, 8))
    call = "first({m}({0}, decoder_input_ids={1}))"
    yield "whisper base", _model(whisper, heard, _indices(batch // 2, 64), call=call, dtype=half)


def _layers(width: int, heads: int) -> dict[str, object]:
    """Returns the configuration of six encoder and six decoder layers."""
    parts = ("encoder", "decoder")
    sizes = {"layers": 6, "attention_heads": heads, "ffn_dim": 4 * width}
    return {"d_model": width, **{f"{part}_{name}": n for part in parts for name, n in sizes.items()}}


def _vision(batch: int, half: str) -> Named:
    few = max(batch // 8, 1)
    segformer = _configured("SegformerForSemanticSegmentation", "Segformer")
    yield "segformer b0", _model(segformer, DrawnInput((2 * few, 3, 512, 512), half), dtype=half)
    dinov2 = _configured("Dinov2Model", "Dinov2", hidden_size=384, num_attention_heads=6)
    yield "dinov2 small", _model(dinov2, DrawnInput((batch // 2, 3, 224, 224), half), dtype=half)
    yield "clip vision, f32", _model(_configured("CLIPVisionModel", "CLIPVision"), DrawnInput((batch // 2, 3, 224, 224)))
    yield "deeplab", _image("segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None)", few, half, side=512)
    yield "convnext tiny", _image("convnext_tiny()", batch, half)
    yield "efficientnet b0", _image("efficientnet_b0()", batch, half)
    yield "mobilenet v3, f32", _image("mobilenet_v3_large()", batch)
    yield "regnet", _image("regnet_y_3_2gf()", batch, half)
    yield "swin tiny", _image("swin_t()", batch // 2, half)
    yield "densenet 121, f32", _image("densenet121()", batch // 2)
    yield "resnet 18, one image, f32", _image("resnet18()", 1)
    yield "resnext 50, f32", _image("resnext50_32x4d()", batch)
    pyramid = "detection.backbone_utils.resnet_fpn_backbone(backbone_name='resnet50', weights=None)"
    yield "detection backbone", _image(pyramid, few, half, side=512)
    yield "diffusion block", _diffusion((2 * few, 320, 64, 64), half)


def _diffusion(shape: tuple[int, ...], dtype: str) -> DrawnGraph:
    """Returns the residual and attention blocks of a latent diffusion U-Net, with its downsampling and upsampling."""
    channels = shape[1]
    heads = f"nn.MultiheadAttention({channels}, 8, batch_first=True)"
    norm, convolution = f"nn.GroupNorm(32, {channels})", f"nn.Conv2d({channels}, {channels}, 3, padding=1)"
    nodes = (
        DrawnNode("F.silu({m}({0}))", (0,), norm),
        DrawnNode("{m}({0})", (1,), convolution),
        DrawnNode("F.silu({m}({0}))", (2,), norm),
        DrawnNode("{m}({0}) + {1}", (3, 0), convolution),
        DrawnNode("{m}({0}).flatten(2).transpose(1, 2)", (4,), norm),
        DrawnNode("{m}({0}, {0}, {0}, need_weights=False)[0] + {0}", (5,), heads),
        DrawnNode("{m}({0})", (6,), f"nn.LayerNorm({channels})"),
        DrawnNode("{m}({0})", (7,), f"nn.Linear({channels}, {8 * channels})"),
        DrawnNode("{0}.chunk(2, -1)[0] * F.gelu({0}.chunk(2, -1)[1])", (8,)),
        DrawnNode("{m}({0}) + {1}", (9, 6), f"nn.Linear({4 * channels}, {channels})"),
        DrawnNode("{0}.transpose(1, 2).unflatten(2, {1}.shape[2:]) + {1}", (10, 4)),
        DrawnNode("{m}({0})", (11,), f"nn.Conv2d({channels}, {channels}, 3, stride=2, padding=1)"),
        DrawnNode("{m}(F.interpolate({0}, scale_factor=2.0, mode='nearest'))", (12,), convolution),
    )
    return DrawnGraph((DrawnInput(shape, dtype),), nodes, "inference", dtype)


def _training() -> Named:
    for dtype in ("bfloat16", "float32"):
        yield f"resnet 50 training {dtype}", _image("resnet50()", 64, dtype, mode="gradients")
    yield "gpt2 training", _loss("GPT2LMHeadModel", "GPT2", 8, 1024, "bfloat16", use_cache=False)
    yield "vit base training", _image("vit_b_16()", 32, "bfloat16", mode="gradients")
    yield "mobilenet v2 training, f32", _image("mobilenet_v2()", 32, mode="gradients")
    yield "bert training", _loss("BertForMaskedLM", "Bert", 16, 128, "bfloat16")
    sizes = {"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4}
    yield (
        "llama training, few layers",
        _loss("LlamaForCausalLM", "Llama", 4, 512, "bfloat16", intermediate_size=2816, use_cache=False, **sizes),
    )
    yield "multilayer perceptron training", _perceptron(512)


def _small_training() -> Named:
    yield "resnet 18 training", _image("resnet18()", 2, mode="gradients")
    yield "bert training, few layers", _loss("BertForMaskedLM", "Bert", 2, 64, "float32", num_hidden_layers=2)
    yield "multilayer perceptron training", _perceptron(64)


def _perceptron(batch: int) -> DrawnGraph:
    layers = "nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(1024, 1024), nn.GELU())], nn.Linear(1024, 10))"
    return _model(layers, DrawnInput((batch, 1024)), call="{m}({0})", mode="gradients")


def _model(constructor: str, *inputs: DrawnInput, call: str = "", mode: str = "inference", dtype: str = "float32") -> DrawnGraph:
    arguments = ", ".join(f"{{{i}}}" for i in range(len(inputs)))
    node = DrawnNode(call or f"first({{m}}({arguments}))", tuple(range(len(inputs))), constructor)
    return DrawnGraph(inputs, (node,), mode, dtype)


def _image(constructor: str, batch: int, dtype: str = "float32", *, side: int = 224, mode: str = "inference") -> DrawnGraph:
    return _model(f"torchvision.models.{constructor}", DrawnInput((batch, 3, side, side), dtype), dtype=dtype, mode=mode)


def _text(name: str, batch: int, length: int, dtype: str = "float32", **sizes: object) -> DrawnGraph:
    return _model(_configured(f"{name}Model", name, **sizes), _indices(batch, length), dtype=dtype)


def _loss(model: str, config: str, batch: int, length: int, dtype: str, **sizes: object) -> DrawnGraph:
    return _model(_configured(model, config, **sizes), _indices(batch, length), call=_LOSS, mode="gradients", dtype=dtype)


def _configured(model: str, config: str, **sizes: object) -> str:
    options = ", ".join(f"{name}={value!r}" for name, value in sizes.items())
    return f"transformers.{model}(transformers.{config}Config({options}))"


def _indices(batch: int, length: int) -> DrawnInput:
    return DrawnInput((batch, length), "int64", below=_WORDS)
