"""Device providers: what a node has to place replicas on, behind one small protocol (``base.Provider``)."""
