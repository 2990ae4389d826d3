"""Lists whole models, of their published sizes, that no benchmark under tools/ names: inference of each, training of some."""

from collections.abc import Iterator

from .graph import Graph, Input, Node

_WORDS = 30000
_LOSS = "{m}({0}, labels={0}).loss"


def models(device: str) -> dict[str, Graph]:
    """Returns models by name. They need transformers and torchvision to run, and on a CPU take a batch of one or two."""
    return dict(_inference(device == "cuda")) | dict(_training(device == "cuda"))


def _model(constructor: str, *given: Input, call: str = "", mode: str = "inference", dtype: str = "bfloat16") -> Graph:
    arguments = ", ".join(f"{{{i}}}" for i in range(len(given)))
    node = Node(call or f"first({{m}}({arguments}))", tuple(range(len(given))), constructor)
    return Graph(given, (node,), mode, dtype)


def _vision(constructor: str, batch: int, side: int = 224, dtype: str = "bfloat16", mode: str = "inference") -> Graph:
    return _model(f"torchvision.models.{constructor}", Input((batch, 3, side, side), dtype), dtype=dtype, mode=mode)


def _text(model: str, config: str, batch: int, length: int, sizes: str = "", *, dtype: str = "bfloat16", **rest: str) -> Graph:
    return _model(_configured(model, config, sizes), _indices(batch, length), dtype=dtype, **rest)


def _configured(model: str, config: str, sizes: str) -> str:
    return f"transformers.{model}(transformers.{config}({sizes}))"


def _indices(batch: int, length: int) -> Input:
    return Input((batch, length), "int64", below=_WORDS)


def _inference(large: bool) -> Iterator[tuple[str, Graph]]:
    def batch(n: int) -> int:
        return n if large else min(2, n)

    half = "bfloat16" if large else "float32"
    uncached = "use_cache=False"
    yield "roberta base", _text("RobertaModel", "RobertaConfig", batch(16), 256, dtype=half)
    yield "distilbert, one sentence", _text("DistilBertModel", "DistilBertConfig", 1, 64, dtype="float32")
    yield "deberta v2", _text("DebertaV2Model", "DebertaV2Config", batch(8), 128, "hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, relative_attention=True, pos_att_type=['c2p', 'p2c']", dtype=half)  # fmt: skip
    yield "opt 125m", _text("OPTModel", "OPTConfig", batch(4), 512, uncached, dtype=half)
    yield "pythia 160m", _text("GPTNeoXModel", "GPTNeoXConfig", batch(4), 512, "hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, use_cache=False", dtype=half)  # fmt: skip
    yield "qwen2 0.5b, one sentence", _text("Qwen2Model", "Qwen2Config", 1, 128, "hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864, use_cache=False", dtype=half)  # fmt: skip
    yield "gemma, few layers", _text("GemmaModel", "GemmaConfig", batch(4), 512, "hidden_size=2048, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=1, intermediate_size=16384, use_cache=False", dtype=half)  # fmt: skip
    yield "mixtral, few layers", _text("MixtralModel", "MixtralConfig", batch(4), 256, "hidden_size=1024, intermediate_size=3584, num_hidden_layers=2, num_attention_heads=16, num_key_value_heads=8, use_cache=False", dtype=half)  # fmt: skip
    yield "t5 small, encoder and decoder", _model(_configured("T5Model", "T5Config", uncached), _indices(batch(8), 256), _indices(batch(8), 64), call="first({m}(input_ids={0}, decoder_input_ids={1}))", dtype=half)  # fmt: skip
    yield "bart base", _model(_configured("BartModel", "BartConfig", "d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12, decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072, use_cache=False"), _indices(batch(8), 256), dtype=half)  # fmt: skip
    yield "whisper base", _model(_configured("WhisperModel", "WhisperConfig", "d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, use_cache=False"), Input((batch(4), 80, 3000), half), _indices(batch(4), 64), call="first({m}({0}, decoder_input_ids={1}))", dtype=half)  # fmt: skip
    yield (
        "wav2vec2 base",
        _model(_configured("Wav2Vec2Model", "Wav2Vec2Config", ""), Input((batch(4), 48000), "float32"), dtype="float32"),
    )
    yield "segformer b0", _model(_configured("SegformerForSemanticSegmentation", "SegformerConfig", ""), Input((batch(8), 3, 512, 512), half), dtype=half)  # fmt: skip
    yield "dinov2 small", _model(_configured("Dinov2Model", "Dinov2Config", "hidden_size=384, num_attention_heads=6"), Input((batch(16), 3, 224, 224), half), dtype=half)  # fmt: skip
    yield "clip vision", _model(_configured("CLIPVisionModel", "CLIPVisionConfig", ""), Input((batch(16), 3, 224, 224), "float32"), dtype="float32")  # fmt: skip
    yield "deeplab", _vision("segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None)", batch(4), 512, half)
    yield "convnext tiny", _vision("convnext_tiny()", batch(32), 224, half)
    yield "efficientnet b0", _vision("efficientnet_b0()", batch(32), 224, half)
    yield "mobilenet v3, f32", _vision("mobilenet_v3_large()", batch(32), 224, "float32")
    yield "regnet", _vision("regnet_y_3_2gf()", batch(32), 224, half)
    yield "swin tiny", _vision("swin_t()", batch(16), 224, half)
    yield "densenet 121, f32", _vision("densenet121()", batch(16), 224, "float32")
    yield "resnet 18, one image, f32", _vision("resnet18()", 1, 224, "float32")
    yield "resnext 50, f32", _vision("resnext50_32x4d()", batch(32), 224, "float32")
    yield "detection backbone", _vision("detection.backbone_utils.resnet_fpn_backbone(backbone_name='resnet50', weights=None)", batch(4), 512, half)  # fmt: skip
    yield "diffusion block", _diffusion((batch(8), 320, 64, 64), half)


def _diffusion(shape: tuple[int, ...], dtype: str) -> Graph:
    """Returns the residual and attention blocks of a latent diffusion U-Net, and its way down and up."""
    channels = shape[1]
    heads = f"nn.MultiheadAttention({channels}, 8, batch_first=True)"
    norm, convolution = f"nn.GroupNorm(32, {channels})", f"nn.Conv2d({channels}, {channels}, 3, padding=1)"
    nodes = (
        Node("F.silu({m}({0}))", (0,), norm),
        Node("{m}({0})", (1,), convolution),
        Node("F.silu({m}({0}))", (2,), norm),
        Node("{m}({0}) + {1}", (3, 0), convolution),
        Node("{m}({0}).flatten(2).transpose(1, 2)", (4,), norm),
        Node("{m}({0}, {0}, {0}, need_weights=False)[0] + {0}", (5,), heads),
        Node("{m}({0})", (6,), f"nn.LayerNorm({channels})"),
        Node("{m}({0})", (7,), f"nn.Linear({channels}, {8 * channels})"),
        Node("{0}.chunk(2, -1)[0] * F.gelu({0}.chunk(2, -1)[1])", (8,)),
        Node("{m}({0}) + {1}", (9, 6), f"nn.Linear({4 * channels}, {channels})"),
        Node("{0}.transpose(1, 2).unflatten(2, {1}.shape[2:]) + {1}", (10, 4)),
        Node("{m}({0})", (11,), f"nn.Conv2d({channels}, {channels}, 3, stride=2, padding=1)"),
        Node("{m}(F.interpolate({0}, scale_factor=2.0, mode='nearest'))", (12,), convolution),
    )
    return Graph((Input(shape, dtype),), nodes, "inference", dtype)


def _training(large: bool) -> Iterator[tuple[str, Graph]]:
    train = "gradients"
    mlp = "nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(1024, 1024), nn.GELU())], nn.Linear(1024, 10))"
    if large:
        for dtype in ("bfloat16", "float32"):
            yield f"resnet 50 training {dtype}", _vision("resnet50()", 64, 224, dtype, mode=train)
        yield "gpt2 training", _text("GPT2LMHeadModel", "GPT2Config", 8, 1024, "use_cache=False", call=_LOSS, mode=train)
        yield "vit base training", _vision("vit_b_16()", 32, mode=train)
        yield "mobilenet v2 training, f32", _vision("mobilenet_v2()", 32, 224, "float32", mode=train)
        yield "bert training", _text("BertForMaskedLM", "BertConfig", 16, 128, call=_LOSS, mode=train)
        yield "llama training, few layers", _text("LlamaForCausalLM", "LlamaConfig", 4, 512, "hidden_size=1024, num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=4, intermediate_size=2816, use_cache=False", call=_LOSS, mode=train)  # fmt: skip
        yield (
            "multilayer perceptron training",
            _model(mlp, Input((512, 1024), "float32"), call="{m}({0})", dtype="float32", mode=train),
        )
    else:
        yield "resnet 18 training", _vision("resnet18()", 2, 224, "float32", mode=train)
        yield "bert training, few layers", _text("BertForMaskedLM", "BertConfig", 2, 64, "num_hidden_layers=2", call=_LOSS, mode=train, dtype="float32")  # fmt: skip
        yield (
            "multilayer perceptron training",
            _model(mlp, Input((64, 1024), "float32"), call="{m}({0})", dtype="float32", mode=train),
        )
