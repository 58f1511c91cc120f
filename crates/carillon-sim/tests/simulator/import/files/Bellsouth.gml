graph [
  node [
    id 0
    label "Cocoa Beach"
    Longitude -80.61
    Latitude 28.32
  ]
  node [
    id 1
    label "Daytona Beach"
    Longitude -81.02
    Latitude 29.21
  ]
  node [
    id 2
    label "West Palm Beach"
    Longitude -80.05
    Latitude 26.72
  ]
  node [
    id 3
    label "Stuart"
    Longitude -80.25
    Latitude 27.2
  ]
  node [
    id 4
    label "Jacksonville"
    Longitude -81.66
    Latitude 30.33
  ]
  node [
    id 5
    label "Savannah"
    Longitude -81.1
    Latitude 32.08
  ]
  node [
    id 6
    label "Panama City"
    Longitude -85.66
    Latitude 30.16
  ]
  node [
    id 7
    label "Gainesville"
    Longitude -82.32
    Latitude 29.65
  ]
  node [
    id 8
    label "Albany"
    Longitude -84.16
    Latitude 31.58
  ]
  node [
    id 9
    label "Macon"
    Longitude -83.63
    Latitude 32.84
  ]
  node [
    id 10
    label "Stone Mt?"
    Longitude -84.17
    Latitude 33.81
  ]
  node [
    id 11
    label "Nashville"
    Longitude -86.78
    Latitude 36.17
  ]
  node [
    id 12
    label "Knoxville"
    Longitude -83.92
    Latitude 35.96
  ]
  node [
    id 13
    label "New Orleans?"
    Longitude -90.08
    Latitude 29.95
  ]
  node [
    id 14
    label "Lafayette"
    Longitude -92.02
    Latitude 30.22
  ]
  node [
    id 15
    label "Baton Rouge"
    Longitude -91.15
    Latitude 30.45
  ]
  node [
    id 16
    label "Shreveport"
    Longitude -93.75
    Latitude 32.53
  ]
  node [
    id 17
    label "Jackson"
    Longitude -90.18
    Latitude 32.3
  ]
  node [
    id 18
    label "Memphis"
    Longitude -90.05
    Latitude 35.15
  ]
  node [
    id 19
    label "Owensboro"
    Longitude -87.11
    Latitude 37.77
  ]
  node [
    id 20
    label "Louisville"
    Longitude -85.76
    Latitude 38.25
  ]
  node [
    id 21
    label "Georgetown"
    Longitude -84.56
    Latitude 38.21
  ]
  node [
    id 22
    label "Greensboro"
    Longitude -79.79
    Latitude 36.07
  ]
  node [
    id 23
    label "Arden"
    Longitude -82.52
    Latitude 35.47
  ]
  node [
    id 24
    label "Charlotte"
    Longitude -80.84
    Latitude 35.23
  ]
  node [
    id 25
    label "Winston"
    Longitude -80.24
    Latitude 36.1
  ]
  node [
    id 26
    label "Columbia"
    Longitude -81.03
    Latitude 34.0
  ]
  node [
    id 27
    label "Augusta"
    Longitude -81.97
    Latitude 33.47
  ]
  node [
    id 28
    label "Florence"
    Longitude -79.76
    Latitude 34.2
  ]
  node [
    id 29
    label "Charleston"
    Longitude -79.93
    Latitude 32.78
  ]
  node [
    id 30
    label "New Orleans"
    Longitude -90.08
    Latitude 29.95
  ]
  node [
    id 31
    label "Slidell"
    Longitude -89.78
    Latitude 30.28
  ]
  node [
    id 32
    label "Huntsville"
    Longitude -86.59
    Latitude 34.73
  ]
  node [
    id 33
    label "Chatanooga"
    Longitude -85.31
    Latitude 35.05
  ]
  node [
    id 34
    label "Atlanta"
    Longitude -84.39
    Latitude 33.75
  ]
  node [
    id 35
    label "Athens"
    Longitude -83.38
    Latitude 33.96
  ]
  node [
    id 36
    label "Biloxi"
    Longitude -88.89
    Latitude 30.4
  ]
  node [
    id 37
    label "Pensacola"
    Longitude -87.22
    Latitude 30.42
  ]
  node [
    id 38
    label "Montgomery"
    Longitude -86.3
    Latitude 32.37
  ]
  node [
    id 39
    label "Birmingham"
    Longitude -86.8
    Latitude 33.52
  ]
  node [
    id 40
    label "Ft Lauderdale"
    Longitude -80.14
    Latitude 26.12
  ]
  node [
    id 41
    label "Boca Raton"
    Longitude -80.08
    Latitude 26.36
  ]
  node [
    id 42
    label "Mobile"
    Longitude -88.04
    Latitude 30.69
  ]
  node [
    id 43
    label "Greenville"
    Longitude -82.39
    Latitude 34.85
  ]
  node [
    id 44
    label "Spartanburg"
    Longitude -81.93
    Latitude 34.95
  ]
  node [
    id 45
    label "Stone Mt?"
    Longitude -84.17
    Latitude 33.81
  ]
  node [
    id 46
    label "Wilmington"
    Longitude -77.94
    Latitude 34.23
  ]
  node [
    id 47
    label "Orlando"
    Longitude -81.38
    Latitude 28.54
  ]
  node [
    id 48
    label "Miami"
    Longitude -80.19
    Latitude 25.77
  ]
  node [
    id 49
    label "Miami?"
    Longitude -80.19
    Latitude 25.77
  ]
  edge [
    source 0
    target 47
  ]
  edge [
    source 1
    target 4
  ]
  edge [
    source 2
    target 41
  ]
  edge [
    source 3
    target 49
  ]
  edge [
    source 4
    target 34
  ]
  edge [
    source 4
    target 48
  ]
  edge [
    source 5
    target 45
  ]
  edge [
    source 6
    target 25
  ]
  edge [
    source 6
    target 30
  ]
  edge [
    source 7
    target 47
  ]
  edge [
    source 8
    target 45
  ]
  edge [
    source 9
    target 45
  ]
  edge [
    source 10
    target 15
  ]
  edge [
    source 10
    target 34
  ]
  edge [
    source 10
    target 45
  ]
  edge [
    source 10
    target 38
  ]
  edge [
    source 11
    target 34
  ]
  edge [
    source 11
    target 30
  ]
  edge [
    source 12
    target 34
  ]
  edge [
    source 12
    target 30
  ]
  edge [
    source 13
    target 15
  ]
  edge [
    source 14
    target 15
  ]
  edge [
    source 15
    target 16
  ]
  edge [
    source 17
    target 34
  ]
  edge [
    source 17
    target 30
  ]
  edge [
    source 18
    target 30
  ]
  edge [
    source 19
    target 20
  ]
  edge [
    source 20
    target 34
  ]
  edge [
    source 20
    target 21
  ]
  edge [
    source 20
    target 30
  ]
  edge [
    source 22
    target 25
  ]
  edge [
    source 23
    target 25
  ]
  edge [
    source 24
    target 34
  ]
  edge [
    source 24
    target 30
  ]
  edge [
    source 25
    target 34
  ]
  edge [
    source 25
    target 46
  ]
  edge [
    source 26
    target 34
  ]
  edge [
    source 26
    target 27
  ]
  edge [
    source 26
    target 28
  ]
  edge [
    source 26
    target 29
  ]
  edge [
    source 26
    target 30
  ]
  edge [
    source 30
    target 31
  ]
  edge [
    source 30
    target 33
  ]
  edge [
    source 30
    target 36
  ]
  edge [
    source 30
    target 38
  ]
  edge [
    source 30
    target 39
  ]
  edge [
    source 30
    target 42
  ]
  edge [
    source 30
    target 34
  ]
  edge [
    source 30
    target 48
  ]
  edge [
    source 30
    target 37
  ]
  edge [
    source 32
    target 39
  ]
  edge [
    source 33
    target 34
  ]
  edge [
    source 34
    target 39
  ]
  edge [
    source 34
    target 42
  ]
  edge [
    source 34
    target 43
  ]
  edge [
    source 34
    target 47
  ]
  edge [
    source 34
    target 48
  ]
  edge [
    source 35
    target 45
  ]
  edge [
    source 37
    target 43
  ]
  edge [
    source 40
    target 49
  ]
  edge [
    source 41
    target 49
  ]
  edge [
    source 43
    target 44
  ]
  edge [
    source 47
    target 48
  ]
  edge [
    source 48
    target 49
  ]
]
