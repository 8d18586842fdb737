"""The SDN controller: unicast routes over the cheapest paths, the cost bit, and new routes when a port goes down or comes up.

`routes` decides and knows nothing of OpenFlow; `openflow` turns decisions into messages; `app` is the Ryu application, which talks to
the switches; `explain` prints the decisions. Start the controller by hand with `python -m controller NETWORK.json`.
"""
