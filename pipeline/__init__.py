"""From files to facts to decisions: sources, formats, scanning, placing, joining, the Beam graphs and the commands."""
