#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func private @cluster(%x: tensor<64x4096xf32>) -> tensor<64xf32> attributes {graph.kernel, graph.rows = "simt{threads=128 cluster=2}"} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x4096xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %s : tensor<64xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func private @pointwise(%x: tensor<4096xf32>) -> tensor<4096xf32> attributes {graph.kernel, graph.rows = "simt{threads=128}"} {
  %e = tensor.empty() : tensor<4096xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4096xf32>) outs(%e : tensor<4096xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func private @threads(%x: tensor<4096xf32>) -> tensor<4096xf32> attributes {graph.kernel, graph.rows = "simt{threads=96}"} {
  return %x : tensor<4096xf32>
}

// -----

func.func private @key(%x: tensor<4096xf32>) -> tensor<4096xf32> attributes {graph.kernel, graph.rows = "triton{m=64}"} {
  return %x : tensor<4096xf32>
}
