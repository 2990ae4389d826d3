func.func @f(%q: tensor<2x4x40x64xbf16>, %sums: tensor<2x4x40xf32>, %seed: tensor<i64>) -> tensor<2x4x40x64xbf16> {
  %0:3 = "graph.extern"(%q, %q, %q, %q, %q, %sums) {args = [unit, unit, unit, unit, none, unit, unit, none, 0.0, false, 0.125, "flash efficient cudnn", false], callee = "lamina.attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>], graph.choice = "forward{m=64}"} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40xf32>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>)
  return %0#0 : tensor<2x4x40x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x40x64xbf16>) -> tensor<2x4x40x64xbf16> {
  %0:2 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>, array<i64: 160, 40, 1>], graph.choice = "backward{m=64}"} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x40xf32>)
  return %0#0 : tensor<2x4x40x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x40x64xbf16>, %sums: tensor<2x4x40xf32>, %seed: tensor<i64>) -> tensor<2x4x40x64xbf16> {
  %0:3 = "graph.extern"(%q, %q, %q, %q, %q, %sums) {args = [unit, unit, unit, unit, none, unit, unit, none, 0.0, false, 0.125, "flash efficient cudnn", false], callee = "lamina.attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>], graph.choice = "backward{keys=48}"} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40xf32>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>)
  return %0#0 : tensor<2x4x40x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x40x64xbf16>, %sums: tensor<2x4x40xf32>, %seed: tensor<i64>) -> tensor<2x4x40x64xbf16> {
  %0:3 = "graph.extern"(%q, %q, %q, %q, %q, %sums) {args = [unit, unit, unit, unit, none, unit, unit, none, 0.0, false, 0.125, "flash efficient cudnn", false], callee = "lamina.attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>], graph.choice = "backward{m=64 blocks=1}"} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40xf32>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>)
  return %0#0 : tensor<2x4x40x64xbf16>
}
