"""The parametrisation: networks and chains by eigenvalues and eigenvectors, their penalties."""
