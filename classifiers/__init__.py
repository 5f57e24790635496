"""Knowledge as data, matching, the rule engine, models and the arbiter: pure functions, no Beam, no files of a site."""
