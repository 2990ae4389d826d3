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
