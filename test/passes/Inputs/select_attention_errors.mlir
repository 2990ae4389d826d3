func.func @f(%q: tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16> {
  %0:2 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 512, 128, 1>], graph.choice = "forward{n=48}"} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>)
  return %0#0 : tensor<2x4x128x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16> {
  %0:2 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 512, 128, 1>], graph.choice = "split{rows=2}"} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>)
  return %0#0 : tensor<2x4x128x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16> {
  %0:2 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 512, 128, 1>], graph.choice = "split{parts=4}"} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>)
  return %0#0 : tensor<2x4x128x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x128x64xf32>) -> tensor<2x4x128x64xf32> {
  %0:2 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 512, 128, 1>], graph.choice = "forward{m=64}"} : (tensor<2x4x128x64xf32>, tensor<2x4x128x64xf32>, tensor<2x4x128x64xf32>) -> (tensor<2x4x128x64xf32>, tensor<2x4x128xf32>)
  return %0#0 : tensor<2x4x128x64xf32>
}

// -----

func.func @f(%q: tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16> {
  %0:2 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 512, 128, 1>], graph.choice = "forward{blocks=1}"} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>)
  return %0#0 : tensor<2x4x128x64xbf16>
}
