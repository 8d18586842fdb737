"""The SDN controller: unicast routes over the cheapest paths, the cost bit, and new routes when a port goes down or comes up.

`routes` decides and knows nothing of OpenFlow; `openflow` puts decisions into messages; `app` is the Ryu application that
connects the two to switches; `explain` prints the decisions. Run it by hand with `python -m controller NETWORK.json`.
"""
