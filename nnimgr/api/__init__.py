"""The REST API: routes over NNIManager, the event stream, and who may use them."""
