// Kernel functions become block programs for a GPU: a block is as wide as a program, and attributes say how threads share it.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a}' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_80}' | FileCheck %s --check-prefix=SM80

#id = affine_map<(d0, d1) -> (d0, d1)>
#t = affine_map<(d0, d1) -> (d1, d0)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>
#full = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#group = affine_map<(d0, d1, d2) -> (d0)>
#channel = affine_map<(d0, d1, d2) -> (d0, d1)>

// One axis, accesses of four elements; the last program is masked.
// CHECK-LABEL: func.func private @negate
// CHECK-SAME: tile.align = array<i64: 16, 16>
// CHECK-SAME: tile.grid = 8 : i64
// CHECK-SAME: tile.threads = 128 : i64, tile.vec = 4 : i64
// CHECK: vector.create_mask
// CHECK: vector.transfer_read {{.*}} vector<512xf32>
// CHECK-NOT: prefetch
// CHECK-NOT: scf.for
func.func private @negate(%x: tensor<40x100xf32>) -> tensor<40x100xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<40x100xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<40x100xf32>) outs(%e : tensor<40x100xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<40x100xf32>
  return %r : tensor<40x100xf32>
}

// Short rows of no whole accesses: single elements.
// CHECK-LABEL: func.func private @odd_rows
// CHECK-SAME: tile.vec = 1 : i64
func.func private @odd_rows(%x: tensor<40x101xf32>) -> tensor<40xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<40x101xf32>) outs(%f : tensor<40xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<40xf32>
  return %r : tensor<40xf32>
}

// Teams of a warp take turns in the rows of a column sum, and combine what they have. A CTA has few columns, so that there are many.
// CHECK-LABEL: func.func private @columns
// CHECK-SAME: tile.teams = 64 : i64, tile.threads = 4 : i64
// CHECK: scf.for
// CHECK: } {tile.shared}
// CHECK: "tile.combine"{{.*}}combine = "arith.addf"
func.func private @columns(%x: tensor<256x512xf32>) -> tensor<512xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %r = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<256x512xf32>) outs(%f : tensor<512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<512xf32>
  return %r : tensor<512xf32>
}

// Few columns of many rows: a CTA takes 32 of the 512, and more teams.
// CHECK-LABEL: func.func private @few_columns
// CHECK-SAME: tile.grid = 16 : i64
// CHECK-SAME: tile.teams = 32 : i64, tile.threads = 8 : i64
func.func private @few_columns(%x: tensor<2048x512xf32>) -> tensor<512xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %r = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<2048x512xf32>) outs(%f : tensor<512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<512xf32>
  return %r : tensor<512xf32>
}

// Rows of nine accesses would leave seven of 16 threads idle: programs of two threads leave one of ten.
// CHECK-LABEL: func.func private @channels
// CHECK-SAME: tile.grid = 5000 : i64
// CHECK-SAME: tile.pack = 64 : i64
// CHECK-SAME: tile.threads = 2 : i64, tile.vec = 8 : i64
func.func private @channels(%x: tensor<1000x72xbf16>, %w: tensor<72xbf16>) -> tensor<1000x72xbf16> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<1000x72xbf16>
  %r = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %w : tensor<1000x72xbf16>, tensor<72xbf16>) outs(%e : tensor<1000x72xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %o: bf16):
    %0 = arith.mulf %a, %b : bf16
    linalg.yield %0 : bf16
  } -> tensor<1000x72xbf16>
  return %r : tensor<1000x72xbf16>
}

// A transposed read goes through a square of shared memory, whose rows the teams share.
// CHECK-LABEL: func.func private @transposed
// CHECK-SAME: tile.grid = 8 : i64
// CHECK: %[[SQUARE:.*]] = memref.alloca() : memref<64x64xf32>
// CHECK: "tile.transpose"({{.*}}, %[[SQUARE]], %c128{{.*}})
// CHECK: scf.for
// CHECK: vector.transfer_read %[[SQUARE]]
// CHECK: } {tile.shared}
func.func private @transposed(%x: tensor<256x128xf32>, %y: tensor<128x256xf32>) -> tensor<128x256xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<128x256xf32>
  %r = linalg.generic {indexing_maps = [#t, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<256x128xf32>, tensor<128x256xf32>) outs(%e : tensor<128x256xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<128x256xf32>
  return %r : tensor<128x256xf32>
}

// A row that one CTA cannot hold is a cluster's where the chip has clusters, else it is walked over.
// CHECK-LABEL: func.func private @normalize
// CHECK-SAME: tile.cluster = 8 : i64
// CHECK-SAME: tile.resident = 2 : i64
// CHECK: vector.transfer_read {{.*}} vector<131072xf32>
// CHECK-NOT: scf.for
// SM80-LABEL: func.func private @normalize
// SM80-SAME: tile.cluster = 1 : i64
// SM80: scf.for
func.func private @normalize(%x: tensor<64x131072xf32>) -> tensor<64x131072xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x131072xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  %e2 = tensor.empty() : tensor<64x131072xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x131072xf32>, tensor<64xf32>) outs(%e2 : tensor<64x131072xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<64x131072xf32>
  return %r : tensor<64x131072xf32>
}

// Channels and pixels of a group are one axis, though the weights are by channel: runs of 64 lanes share one.
// CHECK-LABEL: func.func private @group_norm
// CHECK-SAME: tile.grid = 16 : i64
// CHECK-NOT: scf.for
// CHECK: vector.transfer_read {{.*}} vector<512xf32>
// CHECK: "tile.read_runs"({{.*}}) {along = 0 : i64, jumps = [1], lengths = [64]} : {{.*}} vector<512xf32>
// CHECK: vector.transfer_write
func.func private @group_norm(%x: tensor<16x8x64xf32>, %w: tensor<16x8xf32>) -> tensor<16x8x64xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16xf32>) -> tensor<16xf32>
  %s = linalg.generic {indexing_maps = [#full, #group], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<16x8x64xf32>) outs(%f : tensor<16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<16xf32>
  %e2 = tensor.empty() : tensor<16x8x64xf32>
  %r = linalg.generic {indexing_maps = [#full, #group, #channel, #full], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %s, %w : tensor<16x8x64xf32>, tensor<16xf32>, tensor<16x8xf32>) outs(%e2 : tensor<16x8x64xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %0 = arith.subf %a, %b : f32
    %1 = arith.mulf %0, %c : f32
    linalg.yield %1 : f32
  } -> tensor<16x8x64xf32>
  return %r : tensor<16x8x64xf32>
}

// Long rows that start anywhere, in blocks that start where whole accesses do: a window says which lanes count.
// CHECK-LABEL: func.func private @shifted
// CHECK-SAME: tile.vec = 4 : i64
// CHECK: %[[START:.*]] = arith.muli %{{.*}}, %c1001
// CHECK: %[[BY:.*]] = arith.remui %[[START]], %c4
// CHECK: "tile.window"(%{{.*}}, %{{.*}}) {max_low = 3 : i64, min_high = 1001 : i64}
// CHECK: %[[WHOLE:.*]] = arith.divui %{{.*}}, %c4
// CHECK: %[[AT:.*]] = arith.muli %[[WHOLE]], %c4
// CHECK: vector.transfer_read %{{.*}}[%[[AT]]]
func.func private @shifted(%x: tensor<40x1001xf32>) -> tensor<40xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<40x1001xf32>) outs(%f : tensor<40xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<40xf32>
  return %r : tensor<40xf32>
}
