graph [
  node [
    id 0
    label "Amsterdam"
    Longitude 4.9
    Latitude 52.35
  ]
  node [
    id 1
    label "Athens"
    Longitude 23.73
    Latitude 38.0
  ]
  node [
    id 2
    label "Barcelona"
    Longitude 2.18
    Latitude 41.37
  ]
  node [
    id 3
    label "Belgrade"
    Longitude 20.5
    Latitude 44.83
  ]
  node [
    id 4
    label "Berlin"
    Longitude 13.4
    Latitude 52.52
  ]
  node [
    id 5
    label "Birmingham"
    Longitude -1.88
    Latitude 52.47
  ]
  node [
    id 6
    label "Bordeaux"
    Longitude -0.57
    Latitude 44.85
  ]
  node [
    id 7
    label "Brussels"
    Longitude 4.35
    Latitude 50.83
  ]
  node [
    id 8
    label "Budapest"
    Longitude 19.08
    Latitude 47.5
  ]
  node [
    id 9
    label "Copenhagen"
    Longitude 12.57
    Latitude 55.72
  ]
  node [
    id 10
    label "Dublin"
    Longitude -6.25
    Latitude 53.33
  ]
  node [
    id 11
    label "Dusseldorf"
    Longitude 6.78
    Latitude 51.23
  ]
  node [
    id 12
    label "Frankfurt"
    Longitude 8.67
    Latitude 50.1
  ]
  node [
    id 13
    label "Glasgow"
    Longitude -4.25
    Latitude 55.85
  ]
  node [
    id 14
    label "Hamburg"
    Longitude 10.02
    Latitude 53.55
  ]
  node [
    id 15
    label "Helsinki"
    Longitude 24.97
    Latitude 60.17
  ]
  node [
    id 16
    label "Krakow"
    Longitude 19.95
    Latitude 50.05
  ]
  node [
    id 17
    label "Lisbon"
    Longitude -9.13
    Latitude 38.73
  ]
  node [
    id 18
    label "London"
    Longitude -0.17
    Latitude 51.5
  ]
  node [
    id 19
    label "Lyon"
    Longitude 4.83
    Latitude 45.73
  ]
  node [
    id 20
    label "Madrid"
    Longitude -3.72
    Latitude 40.42
  ]
  node [
    id 21
    label "Marseille"
    Longitude 5.37
    Latitude 43.3
  ]
  node [
    id 22
    label "Milan"
    Longitude 9.17
    Latitude 45.47
  ]
  node [
    id 23
    label "Munich"
    Longitude 11.57
    Latitude 48.13
  ]
  node [
    id 24
    label "Oslo"
    Longitude 10.75
    Latitude 59.93
  ]
  node [
    id 25
    label "Palermo"
    Longitude 13.35
    Latitude 38.12
  ]
  node [
    id 26
    label "Paris"
    Longitude 2.33
    Latitude 48.87
  ]
  node [
    id 27
    label "Prague"
    Longitude 14.43
    Latitude 50.08
  ]
  node [
    id 28
    label "Rome"
    Longitude 12.5
    Latitude 41.88
  ]
  node [
    id 29
    label "Seville"
    Longitude -5.98
    Latitude 37.38
  ]
  node [
    id 30
    label "Sofia"
    Longitude 23.33
    Latitude 42.75
  ]
  node [
    id 31
    label "Stockholm"
    Longitude 18.05
    Latitude 59.33
  ]
  node [
    id 32
    label "Strasbourg"
    Longitude 7.77
    Latitude 48.58
  ]
  node [
    id 33
    label "Vienna"
    Longitude 16.37
    Latitude 48.22
  ]
  node [
    id 34
    label "Warsaw"
    Longitude 21.0
    Latitude 52.25
  ]
  node [
    id 35
    label "Zagreb"
    Longitude 16.02
    Latitude 45.83
  ]
  node [
    id 36
    label "Zurich"
    Longitude 8.55
    Latitude 47.38
  ]
  edge [
    source 0
    target 7
  ]
  edge [
    source 0
    target 13
  ]
  edge [
    source 0
    target 14
  ]
  edge [
    source 0
    target 18
  ]
  edge [
    source 1
    target 25
  ]
  edge [
    source 1
    target 30
  ]
  edge [
    source 1
    target 35
  ]
  edge [
    source 2
    target 20
  ]
  edge [
    source 2
    target 21
  ]
  edge [
    source 2
    target 29
  ]
  edge [
    source 3
    target 8
  ]
  edge [
    source 3
    target 30
  ]
  edge [
    source 3
    target 35
  ]
  edge [
    source 4
    target 9
  ]
  edge [
    source 4
    target 14
  ]
  edge [
    source 4
    target 23
  ]
  edge [
    source 4
    target 27
  ]
  edge [
    source 4
    target 34
  ]
  edge [
    source 5
    target 13
  ]
  edge [
    source 5
    target 18
  ]
  edge [
    source 6
    target 20
  ]
  edge [
    source 6
    target 21
  ]
  edge [
    source 6
    target 26
  ]
  edge [
    source 7
    target 11
  ]
  edge [
    source 7
    target 26
  ]
  edge [
    source 8
    target 16
  ]
  edge [
    source 8
    target 27
  ]
  edge [
    source 9
    target 24
  ]
  edge [
    source 9
    target 31
  ]
  edge [
    source 10
    target 13
  ]
  edge [
    source 10
    target 18
  ]
  edge [
    source 11
    target 12
  ]
  edge [
    source 12
    target 14
  ]
  edge [
    source 12
    target 23
  ]
  edge [
    source 12
    target 32
  ]
  edge [
    source 15
    target 24
  ]
  edge [
    source 15
    target 31
  ]
  edge [
    source 15
    target 34
  ]
  edge [
    source 16
    target 34
  ]
  edge [
    source 17
    target 18
  ]
  edge [
    source 17
    target 20
  ]
  edge [
    source 17
    target 29
  ]
  edge [
    source 18
    target 26
  ]
  edge [
    source 19
    target 21
  ]
  edge [
    source 19
    target 26
  ]
  edge [
    source 19
    target 36
  ]
  edge [
    source 21
    target 28
  ]
  edge [
    source 22
    target 23
  ]
  edge [
    source 22
    target 28
  ]
  edge [
    source 22
    target 36
  ]
  edge [
    source 23
    target 33
  ]
  edge [
    source 25
    target 28
  ]
  edge [
    source 26
    target 32
  ]
  edge [
    source 27
    target 33
  ]
  edge [
    source 28
    target 35
  ]
  edge [
    source 32
    target 36
  ]
  edge [
    source 33
    target 35
  ]
]
