"""The laboratory of flatboot: fetch, build, boot, measure and compare Linux kernels."""
