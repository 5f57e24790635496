"""`faultbeam watch`: the embedded stream. Files of a folder are read as they grow, without a broker.

`listing` looks at the folder by `stat` alone; `opened` reads a file by its descriptor, so that a rename meanwhile
does not matter; `identity` says which source a file is; `reading` scans new bytes; `watcher` puts them into the
warehouse and has decided what they touched.

A source is named by content. So it does not matter under which name, in which copy or packing the rest of a rotated
file is met: the warehouse knows how far the source has been read, and reading goes on from there.
"""
