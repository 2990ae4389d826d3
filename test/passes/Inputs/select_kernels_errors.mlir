func.func @odd_blocks(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %0 = "graph.extern"(%x, %x) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "triton{m=100}"} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  return %0 : tensor<64x64xbf16>
}
