"""Engine that runs tasks on the executors of a Spark cluster."""
