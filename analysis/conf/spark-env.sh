# Spark's launcher reads this file. Java prints one warning that no setting turns off; everything else passes.
exec 2> >(exec grep --line-buffered --invert-match "Using incubator modules" >&2)
# An archive of classes admits no folder with files on the class path, where Spark would put this one. analysis/spark.py names the other file in it.
SPARK_CONF_DIR=$SPARK_CONF_DIR/none
# The launcher itself, a JVM that makes the command line of the next one.
SPARK_LAUNCHER_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
