"""The stream: messages of a broker to facts, and what runs beside the graph. No Beam in here.

`messages` and `reading` are pure functions of the messages; `client`, `positions` and `deadletters` speak with the
broker; `supervisor` is what `faultbeam stream` does.
"""
