"""Reading failure lines with a small linear model: features, scoring from arrays, loading. Never imports scikit-learn.

`shipped.scorer_for` is the way in; numpy is imported only once a model is asked. Training is in `classifiers.models`.
"""
