"""Figures of the trees and forests that protocols build."""
