"""One pass per file; `registry.PASSES` names them all, `pipeline` runs texts that mix them with upstream passes."""
