// A program id is an index.
func.func @f() {
  // expected-error @+1 {{expected base type 'builtin.index' but got 'builtin.integer'}}
  %p = "tile.program_id"() : () -> i64
  return
}
// -----
func.func @f(%ok: i1) {
  // expected-error @+1 {{attribute "message" is expected but not provided}}
  "tile.check"(%ok) : (i1) -> ()
  return
}
// -----
// expected-error @+1 {{unregistered operation 'tile.programid'}}
"tile.programid"() : () -> ()
// -----
func.func @f(%m: memref<64xf32>, %i: index, %ok: vector<4xi1>) {
  // expected-error @+1 {{'tile.read_runs' expects a jump for each length, but has 1 lengths and 0 jumps}}
  %v = "tile.read_runs"(%m, %i, %i, %ok) {along = 1 : i64, lengths = [64], jumps = []} : (memref<64xf32>, index, index, vector<4xi1>) -> vector<4xf32>
  return
}
// -----
func.func @f(%m: memref<64xf32>, %i: index, %ok: vector<4xi1>, %v: vector<4xf32>) {
  // expected-error @+1 {{'tile.write_runs' expects lengths of at least 1}}
  "tile.write_runs"(%v, %m, %i, %i, %ok) {lengths = [0], jumps = [3]} : (vector<4xf32>, memref<64xf32>, index, index, vector<4xi1>) -> ()
  return
}
// -----
func.func @f(%m: memref<64xf32>, %i: index, %ok: vector<4xi1>) {
  // expected-error @+1 {{'tile.read_runs' expects integers in lengths and jumps}}
  %v = "tile.read_runs"(%m, %i, %i, %ok) {along = 1 : i64, lengths = ["a"], jumps = [1]} : (memref<64xf32>, index, index, vector<4xi1>) -> vector<4xf32>
  return
}
// -----
func.func @f(%m: memref<64xf32>, %i: index, %ok: i1) {
  // expected-error @+1 {{'tile.read_shared' expects a length of at least 1}}
  %v = "tile.read_shared"(%m, %i, %i, %ok) {length = 0, jump = 1} : (memref<64xf32>, index, index, i1) -> vector<4xf32>
  return
}
// -----
func.func @f(%m: memref<64xf32>, %v: vector<4xf32>, %i: vector<4xindex>, %ok: vector<4xi1>) {
  // expected-error @+1 {{'tile.scatter' expects one of arith.addf, arith.addi, arith.maximumf, arith.maxsi, arith.minimumf, arith.minsi, arith.mulf, arith.muli as combine, not 1 : i64}}
  "tile.scatter"(%v, %m, %i, %ok) {combine = 1 : i64} : (vector<4xf32>, memref<64xf32>, vector<4xindex>, vector<4xi1>) -> ()
  return
}
// -----
func.func @f(%x: vector<6xi64>, %y: vector<8xf32>) {
  // expected-error @+1 {{'tile.sort' expects as many lanes as a power of two, not vector<6xi64>}}
  %0 = "tile.sort"(%x) : (vector<6xi64>) -> vector<6xi64>
  return
}
// -----
func.func @f(%x: vector<8xf32>) {
  // expected-error @+1 {{'tile.sort' expects a vector of integers and a result of its type, not vector<8xf32>}}
  %0 = "tile.sort"(%x) : (vector<8xf32>) -> vector<8xf32>
  return
}
