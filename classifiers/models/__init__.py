"""Training of models with scikit-learn. The only package that imports it; nothing that diagnoses imports this one."""
