# Spark's launcher reads this file. Java prints one warning that no setting turns off; everything else passes.
exec 2> >(exec grep --line-buffered --invert-match "Using incubator modules" >&2)
