// Where programs can lie within one part of a concatenation, a branch computes that part alone, and its loads have no masks. On a CPU each
// part has a loop of its own.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a}' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=cpu}' --split-input-file | FileCheck %s --check-prefix=CPU

#id = affine_map<(r, c) -> (r, c)>

// CHECK-LABEL: func.func private @parts
// CHECK-SAME: tile.grid = 300
// CHECK-SAME: tile.threads = 32
// CHECK-NOT: transfer_read
// CHECK: scf.if
// CHECK-COUNT-3: vector.transfer_read {{.*}}, %cst{{(_[0-9]+)?}} {in_bounds = [true]}
// CHECK: vector.transfer_write
// CHECK: } else {
// CHECK-COUNT-1: vector.transfer_read {{.*}}, %cst{{(_[0-9]+)?}} {in_bounds = [true]}
// CHECK: vector.transfer_write
// CHECK-NOT: arith.select
// CHECK: return
// CPU-LABEL: func.func private @parts
// CPU-NOT: scf.if
// CPU-NOT: create_mask
// CPU: scf.for {{.*}} to %c256
// CPU-COUNT-3: vector.transfer_read {{.*}}vector<64xbf16>
// CPU: vector.transfer_write
// CPU: scf.for {{.*}} = %c256
// CPU-COUNT-1: vector.transfer_read {{.*}}vector<64xbf16>
// CPU-NOT: arith.select
// CPU: return
func.func private @parts(%a: tensor<100x256xbf16>, %b: tensor<100x256xbf16>, %c: tensor<100x256xbf16>, %d: tensor<100x512xbf16>) -> tensor<100x768xbf16> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<100x256xbf16>
  %s = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b, %c : tensor<100x256xbf16>, tensor<100x256xbf16>, tensor<100x256xbf16>) outs(%e : tensor<100x256xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %z: bf16, %o: bf16):
    %0 = arith.addf %x, %y : bf16
    %1 = arith.mulf %0, %z : bf16
    linalg.yield %1 : bf16
  } -> tensor<100x256xbf16>
  %r = tensor.concat dim(1) %s, %d : (tensor<100x256xbf16>, tensor<100x512xbf16>) -> tensor<100x768xbf16>
  return %r : tensor<100x768xbf16>
}

// -----

#id = affine_map<(r, c) -> (r, c)>

// Parts of 24 elements are less than a warp: threads would wait for each other's.
// CHECK-LABEL: func.func private @narrow
// CHECK-NOT: scf.if
// CHECK: arith.select
// CHECK: return
func.func private @narrow(%a: tensor<100x24xbf16>, %b: tensor<100x24xbf16>, %c: tensor<100x24xbf16>, %d: tensor<100x48xbf16>) -> tensor<100x72xbf16> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<100x24xbf16>
  %s = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b, %c : tensor<100x24xbf16>, tensor<100x24xbf16>, tensor<100x24xbf16>) outs(%e : tensor<100x24xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %z: bf16, %o: bf16):
    %0 = arith.addf %x, %y : bf16
    %1 = arith.mulf %0, %z : bf16
    linalg.yield %1 : bf16
  } -> tensor<100x24xbf16>
  %r = tensor.concat dim(1) %s, %d : (tensor<100x24xbf16>, tensor<100x48xbf16>) -> tensor<100x72xbf16>
  return %r : tensor<100x72xbf16>
}
