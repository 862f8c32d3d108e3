"""Programs Paceline measures. They import torch and the standard library, nothing of ours."""
