"""Frozen features: extractors of images and captions, word vectors, reduction, and the cache on disk.

images: files decoded and resized. words: rules, vocabularies, word vectors. pretrained, efficientnet_lite, cells: what
describes images and captions without learning here. cache: features computed once, and reduced.
"""
