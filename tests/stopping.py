"""A callback in scikit-learn's protocol that tests attach to fits."""


class Stop:
    """Asks to stop at the end of the `count`-th task of a name; keeps what it saw."""

    def __init__(self, task_name=None, count=1):
        self.task_name, self.count, self.begun, self.ended = task_name, count, [], []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context):
        self.ended.append(context.task_name)
        return self.ended.count(self.task_name) == self.count
